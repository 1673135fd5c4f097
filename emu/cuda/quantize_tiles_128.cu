// Blocks of 128 with f32 scales: a block of threads takes 128 x 128 elements.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/element_cast.cuh"
#include "emu/cuda/group_tiles.cuh"
#include "emu/cuda/quantize.cuh"
#include "emu/reference/elements.h"

namespace mxo::cuda {
namespace {

constexpr int kTile = static_cast<int>(kScaledBlock);
constexpr int kNeighbours = 8;                // columns of a thread
constexpr int kAcross = kTile / kNeighbours;  // threads of a row
constexpr int kRowsOfThread = kTile * kAcross / kThreads;

struct BlockwisePlan {
  bool one_row;     ///< 1x128
  bool one_column;  ///< 128x1; neither: 128x128
  F32ScaleRule rule;
  float input_max;
  Index column_blocks;
  Index tiles;  // of one expert
  bool grouped;
  GroupTiles groups;
  FaultWord faults;
};

/// What a thread has of the tile: kNeighbours columns of every 16th row.
template <typename X>
struct Share {
  X x[kRowsOfThread][kNeighbours];
};

template <bool Packs, typename X>
__device__ void read_share(const TensorView<const X, 3>& x, Index e, const TileRows& rows, Index k,
                           int ty, Share<X>& share) {
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const Index r = rows.first + ty + i * (kThreads / kAcross);
    if (Packs && r < rows.past && k < x.extent[2]) {
      const auto pack = *reinterpret_cast<const Pack<X, kNeighbours>*>(&x(e, r, k));
#pragma unroll
      for (int j = 0; j < kNeighbours; ++j) share.x[i][j] = pack.v[j];
    } else {
#pragma unroll
      for (int j = 0; j < kNeighbours; ++j) {
        share.x[i][j] = X{};
        if (!Packs && r < rows.past && k + j < x.extent[2]) share.x[i][j] = x(e, r, k + j);
      }
    }
  }
}

/// Largest magnitudes by the line that shares a scale: row, column or the whole tile at 0.
template <typename X>
__device__ void find_amax(const BlockwisePlan& plan, const Share<X>& share, int tx, int ty,
                          std::uint32_t* amax) {
  const NanRule nan = plan.rule.nan;
  if (plan.one_column) {
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j) {
      std::uint32_t top = 0;
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) top = join_amax(top, as_float(share.x[i][j]), nan);
      atomicMax(amax + tx * kNeighbours + j, top);
    }
    return;
  }
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    std::uint32_t top = 0;
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j) top = join_amax(top, as_float(share.x[i][j]), nan);
    for (int step = 1; step < kAcross; step *= 2) {
      top = max(top, __shfl_xor_sync(0xFFFFFFFFu, top, step));
    }
    all = max(all, top);
    if (plan.one_row && tx == 0) {
      amax[ty + i * (kThreads / kAcross)] = top;
    }
  }
  if (!plan.one_row && !plan.one_column && tx == 0) atomicMax(amax, all);
}

template <bool Packs, typename X, typename Code>
__global__ void __launch_bounds__(kThreads)
    quantize_tiles_128_kernel(TensorView<const X, 3> x, TensorView<Code, 3> codes,
                              TensorView<float, 3> scales, BlockwisePlan plan) {
  __shared__ std::uint32_t amax[kTile];
  __shared__ float multiplier[kTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int tx = thread % kAcross;
  const int ty = thread / kAcross;
  const Index block = static_cast<Index>(blockIdx.x) % plan.column_blocks;
  const Index tile = static_cast<Index>(blockIdx.x) / plan.column_blocks % plan.tiles;
  const Index e = static_cast<Index>(blockIdx.x) / plan.column_blocks / plan.tiles;
  TileRows rows{tile * kTile, min(tile * kTile + kTile, x.extent[1])};
  if (plan.grouped) rows = plan.groups(tile);
  if (rows.first == rows.past) return;  // a tile that no group has
  if (plan.grouped && tile >= scales.extent[1]) return plan.faults.report(DeviceFault::scale_rows);
  const Index k = block * kTile + tx * kNeighbours;

  Share<X> share;
  read_share<Packs>(x, e, rows, k, ty, share);
  if (thread < kTile) amax[thread] = 0;
  __syncthreads();
  find_amax(plan, share, tx, ty, amax);
  __syncthreads();
  if (thread < kTile) {
    const F32Scale scale =
        f32_scale<Code::spec>(__uint_as_float(amax[thread]), plan.rule, plan.input_max);
    multiplier[thread] = scale.factor;
    const Index column = block * kTile + thread;
    if (plan.one_row) {
      if (rows.first + thread < rows.past) scales(e, rows.first + thread, block) = scale.stored;
    } else if (plan.one_column) {
      if (column < x.extent[2]) scales(e, tile, column) = scale.stored;
    } else if (thread == 0) {
      scales(e, tile, block) = scale.stored;
    }
  }
  __syncthreads();

#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = ty + i * (kThreads / kAcross);
    if (rows.first + row >= rows.past) continue;
    float scaled[kNeighbours];
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j) {
      int line = 0;
      if (plan.one_row) line = row;
      if (plan.one_column) line = tx * kNeighbours + j;
      scaled[j] = as_float(share.x[i][j]) * multiplier[line];
    }
    if (Packs) {
      if (k < x.extent[2]) {
        *reinterpret_cast<uint2*>(&codes(e, rows.first + row, k)) = saturated_eight<Code>(scaled);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kNeighbours; ++j) {
        if (k + j < x.extent[2]) {
          codes(e, rows.first + row, k + j) = saturated_code<Code>(scaled[j]);
        }
      }
    }
  }
}

}  // namespace

void quantize_tiles_128(DeviceBackend& backend, const Quantize& op) {
  const bool grouped = op.group_ends.given();
  const Index height = op.x.extent[op.x.rank - 2];
  const Index groups = grouped ? op.group_ends.extent[0] : 0;
  const Scratch<std::int64_t> before(backend, groups + 1);
  if (grouped) count_units(backend, op.group_ends, height, kTile, before.data());
  if (op.x.elements() == 0) return;
  BlockwisePlan plan{};
  plan.one_row = op.to.block.rows == 1;
  plan.one_column = op.to.block.columns == 1;
  plan.rule = op.rule.f32;
  plan.column_blocks = ceil_div(op.x.extent[op.x.rank - 1], kTile);
  plan.tiles = ceil_div(height, kTile) + groups;  // at most
  plan.grouped = grouped;
  plan.groups = {op.group_ends.as<const std::int32_t, 1>(), before.data(), kTile, height};
  plan.faults = backend.faults();
  const Index blocks = (op.x.rank == 3 ? op.x.extent[0] : 1) * plan.tiles * plan.column_blocks;
  const bool packs = rows_aligned(op.x, 16) && rows_aligned(op.to.codes, kNeighbours);
  visit_f32_or_bf16(op.x.dtype, op.to.codes.dtype, [&](auto wide, auto code) {
    using X = typename decltype(wide)::type;
    using Code = typename decltype(code)::type;
    plan.input_max = largest_finite<X>();
    const auto launch = packs ? quantize_tiles_128_kernel<true, X, Code>
                              : quantize_tiles_128_kernel<false, X, Code>;
    launch<<<static_cast<unsigned>(blocks), kThreads, 0, backend.stream()>>>(
        batched<const X>(op.x), batched<Code>(op.to.codes), batched<float>(op.to.scales), plan);
  });
  check_launch("quantize");
}

}  // namespace mxo::cuda
