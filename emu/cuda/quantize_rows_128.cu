// Blocks of 1x128 with f32 scales where rows are whole words: sixteen lanes a block, eight
// neighbours each.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"
#include "emu/reference/elements.h"

namespace mxo::cuda {
namespace {

constexpr int kNeighbours = 8;  // columns of a lane
constexpr int kBlockLanes = static_cast<int>(kScaledBlock) / kNeighbours;
constexpr int kAtOnce = 4;  // blocks of half a warp, all under way before the first is used
constexpr int kWarpBlocks = kAtOnce * 32 / kBlockLanes;

/// Where blocks lie when all tensors are contiguous and rows are whole blocks: one after another.
template <typename X, typename Code>
struct OneAfterAnother {
  const X* x;
  Code* codes;
  float* scales;

  __device__ bool inside(unsigned, int) const { return true; }
  __device__ const X* from(unsigned block, int k) const {
    return x + static_cast<Index>(block) * kScaledBlock + k;
  }
  __device__ Code* to(unsigned block, int k) const {
    return codes + static_cast<Index>(block) * kScaledBlock + k;
  }
  __device__ float& scale(unsigned block) const { return scales[block]; }
};

/// Any strides between rows.
template <typename X, typename Code>
struct ByRows {
  TensorView<const X, 3> x;
  TensorView<Code, 3> codes;
  TensorView<float, 3> scales;
  unsigned across;
  unsigned rows;

  __device__ bool inside(unsigned block, int k) const {
    return block % across * kScaledBlock + k < x.extent[2];
  }
  __device__ const X* from(unsigned block, int k) const {
    const unsigned row = block / across;
    return &x(row / rows, row % rows, block % across * kScaledBlock + k);
  }
  __device__ Code* to(unsigned block, int k) const {
    const unsigned row = block / across;
    return &codes(row / rows, row % rows, block % across * kScaledBlock + k);
  }
  __device__ float& scale(unsigned block) const {
    const unsigned row = block / across;
    return scales(row / rows, row % rows, block % across);
  }
};

template <typename X, typename Code, typename Places>
__global__ void __launch_bounds__(kThreads)
    quantize_rows_128_kernel(Places places, F32ScaleRule rule, float input_max, unsigned blocks) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int half = lane / kBlockLanes;
  const int within = lane % kBlockLanes;
  const auto warp = static_cast<unsigned>(grid_thread() / 32);
  const unsigned first = warp * kWarpBlocks + static_cast<unsigned>(half);
  Eight<X> mine[kAtOnce];
  bool inside[kAtOnce];
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) {
    const unsigned block = first + static_cast<unsigned>(2 * j);
    inside[j] = block < blocks && places.inside(block, within * kNeighbours);
    if (inside[j]) mine[j].load(places.from(block, within * kNeighbours));
  }
  // Lane `within` of a half has block `within` of the half: a scale takes some 150 instructions,
  // the same for one lane as for all.
  std::uint32_t own = 0;
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) {
    std::uint32_t top = mine[j].amax(rule.nan);
#pragma unroll
    for (int step = 1; step < kBlockLanes; step *= 2) {
      top = max(top, __shfl_xor_sync(0xFFFFFFFFu, top, step));
    }
    if (within == j) own = top;
  }
  const F32Scale scale = f32_scale<Code::spec>(__uint_as_float(own), rule, input_max);
  if (within < kAtOnce) {
    const unsigned block = first + static_cast<unsigned>(2 * within);
    if (block < blocks) places.scale(block) = scale.stored;
  }
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) {
    const float factor = __shfl_sync(0xFFFFFFFFu, scale.factor, half * kBlockLanes + j);
    if (inside[j]) {
      Code* to = places.to(first + static_cast<unsigned>(2 * j), within * kNeighbours);
      store_codes<Code>(mine[j], factor, reinterpret_cast<std::uint8_t*>(to));
    }
  }
}

}  // namespace

bool quantize_rows_128(cudaStream_t stream, const Quantize& op) {
  if (op.to.block != kRowBlock || op.group_ends.given()) return false;
  if (!rows_aligned(op.x, 16) || !rows_aligned(op.to.codes, kNeighbours)) return false;
  const Index width = op.x.extent[op.x.rank - 1];
  const Index height = op.x.extent[op.x.rank - 2];
  const Index across = ceil_div(width, kScaledBlock);
  const Index blocks = (op.x.rank == 3 ? op.x.extent[0] : 1) * height * across;
  if (blocks == 0) return true;
  if (blocks > Index{1} << 31) return false;  // counted in 32 bits
  const bool in_order = width % kScaledBlock == 0 && op.x.contiguous() &&
                        op.to.codes.contiguous() && op.to.scales.contiguous();
  const unsigned grid = blocks_for(blocks, kWarpBlocks * (kThreads / 32));
  visit_f32_or_bf16(op.x.dtype, op.to.codes.dtype, [&](auto wide, auto code) {
    using X = typename decltype(wide)::type;
    using Code = typename decltype(code)::type;
    const auto launch = [&](auto places) {
      quantize_rows_128_kernel<X, Code><<<grid, kThreads, 0, stream>>>(
          places, op.rule.f32, largest_finite<X>(), static_cast<unsigned>(blocks));
    };
    if (in_order) {
      launch(OneAfterAnother<X, Code>{static_cast<const X*>(op.x.data),
                                      static_cast<Code*>(op.to.codes.data),
                                      static_cast<float*>(op.to.scales.data)});
    } else {
      launch(ByRows<X, Code>{batched<const X>(op.x), batched<Code>(op.to.codes),
                             batched<float>(op.to.scales), static_cast<unsigned>(across),
                             static_cast<unsigned>(height)});
    }
  });
  check_launch("quantize");
  return true;
}

}  // namespace mxo::cuda
