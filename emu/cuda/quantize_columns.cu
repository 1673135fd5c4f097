// Quantise along the last axis of contiguous tensors: four lanes a block, eight elements each.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"

namespace mxo::cuda {
namespace {

constexpr int kPerLane = 8;                  // elements of one lane
constexpr int kLanes = kMxBlock / kPerLane;  // lanes that share a block
constexpr int kUnroll = 4;                   // loads in flight

/// Blocks are consecutive in memory, so rows do not matter: chunk i is elements 8i .. 8i+7.
/// `place` maps a block to the offset of its scale.
template <typename Code, typename X, typename Rule, typename Place>
__global__ void __launch_bounds__(kThreads)
    quantize_columns_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, Index chunks,
                            Rule rule, Place place) {
  const Index first = static_cast<Index>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  float value[kUnroll][kPerLane] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index chunk = first + u * kThreads;
    if (chunk < chunks) load_eight(x + chunk * kPerLane, value[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index chunk = first + u * kThreads;
    std::uint32_t amax = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      amax = join_amax(amax, value[u][i], rule.scale_profile().nan);
    }
#pragma unroll
    for (int lane = 1; lane < kLanes; lane *= 2) {
      amax = max(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lane));
    }
    if (chunk >= chunks) continue;
    const BlockScale scale = block_scale<Code>(amax, rule);
    float scaled[2][4];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) scaled[i / 4][i % 4] = value[u][i] * scale.factor;
    __stcs(reinterpret_cast<uint2*>(codes + chunk * kPerLane),
           make_uint2(saturated_quad<Code>(scaled[0]), saturated_quad<Code>(scaled[1])));
    if (chunk % kLanes == 0) scales[place(chunk / kLanes)] = scale.bits;
  }
}

/// Scales in the order of the blocks.
struct InOrder {
  __device__ Index operator()(Index block) const { return block; }
};

/// Scales in 128x4 tiles, one blocked matrix per leading index.
struct InTiles {
  Index columns;  // scales in a row
  Index column_tiles;
  Index rows;  // of one matrix
  Index matrix_bytes;
  __device__ Index operator()(Index block) const {
    const Index row = block / columns;
    return row / rows * matrix_bytes + blocked_offset(row % rows, block % columns, column_tiles);
  }
};

}  // namespace

bool quantize_columns(cudaStream_t stream, const Quantize& op) {
  const bool tiles = op.storage == ScaleStorage::blocked;
  const bool fits = op.axis == BlockAxis::columns && op.block == kMxBlock && op.x.contiguous() &&
                    op.codes.contiguous() && op.scales.contiguous() && aligned(op.x, 16) &&
                    aligned(op.codes, kPerLane);
  if (!fits) return false;
  const Index chunks = op.x.elements() / kPerLane;
  if (chunks == 0) return true;
  const unsigned grid = blocks_for(chunks, kThreads * kUnroll);
  visit_rule(op.codes.dtype, op.mode, op.profile, [&](auto code, auto rule) {
    using Code = typename decltype(code)::type;
    const auto launch = [&](const auto* x, auto place) {
      quantize_columns_kernel<Code><<<grid, kThreads, 0, stream>>>(
          x, static_cast<std::uint8_t*>(op.codes.data), static_cast<std::uint8_t*>(op.scales.data),
          chunks, rule, place);
    };
    const auto with_place = [&](const auto* x) {
      if (!tiles) return launch(x, InOrder{});
      const Index rows = op.x.extent[op.x.rank - 2];
      const Index columns = op.x.extent[op.x.rank - 1] / kMxBlock;
      launch(x,
             InTiles{columns, ceil_div(columns, kTileColumns), rows, blocked_bytes(rows, columns)});
    };
    if (op.x.dtype == Dtype::f32) {
      with_place(static_cast<const float*>(op.x.data));
    } else {
      with_place(static_cast<const BF16*>(op.x.data));
    }
  });
  check_launch("quantize");
  return true;
}

}  // namespace mxo::cuda
