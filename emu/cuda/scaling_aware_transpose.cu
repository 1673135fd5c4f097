// scaling_aware_transpose on the device: a block of threads turns 128 x 128 codes.
#include "emu/cuda/group_tiles.cuh"
#include "ops/quantize.h"
#include "ops/scaling_aware_transpose.h"

namespace mxo::cuda {
namespace {

constexpr int kTile = static_cast<int>(kScaledBlock);

template <typename T>
struct TransposePlan {
  Matrix<const T> codes;
  Matrix<const float> scales;
  Matrix<T> codes_out;
  Matrix<float> scales_out;
  Underflow underflow;
  Index column_blocks;
  GroupTiles tiles;
  FaultWord faults;
};

/// +0, or a power of two of at least 2^-126.
__device__ bool is_power_of_two(std::uint32_t word) {
  return (word & 0x7FFFFFu) == 0 && word < 0x7F800000u;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) transpose_kernel(TransposePlan<T> plan) {
  __shared__ std::uint32_t top;  // non-negative floats order as their words
  __shared__ int shift[kTile];
  __shared__ T turned[kTile][kTile + 4];
  const int thread = static_cast<int>(threadIdx.x);
  const Index block = static_cast<Index>(blockIdx.x) % plan.column_blocks;
  const Index tile = static_cast<Index>(blockIdx.x) / plan.column_blocks;
  const TileRows rows = plan.tiles(tile);
  const int count = static_cast<int>(rows.past - rows.first);
  if (count == 0) return;
  if (tile >= plan.scales_out.extent[0]) return plan.faults.report(DeviceFault::scale_rows);

  if (thread == 0) top = 0;
  __syncthreads();
  std::uint32_t word = 0;
  if (thread < count) {
    word = __float_as_uint(plan.scales(rows.first + thread, block));
    if (!is_power_of_two(word)) {
      plan.faults.report(DeviceFault::scales);
      word = 0;
    }
    atomicMax(&top, word);
  }
  __syncthreads();
  if (thread < count) {
    shift[thread] = static_cast<int>(top >> 23) - static_cast<int>(word >> 23);
  }
  __syncthreads();
  const Index k0 = block * kTile;
  const int width = static_cast<int>(min(plan.codes.extent[1] - k0, Index{kTile}));
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const int r = i / kTile;
    const int k = i % kTile;
    if (r >= count || k >= width) continue;
    turned[k][r] = shifted_code(plan.codes(rows.first + r, k0 + k), shift[r], plan.underflow);
  }
  __syncthreads();
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const int k = i / kTile;
    const int r = i % kTile;
    if (r < count && k < width) plan.codes_out(k0 + k, rows.first + r) = turned[k][r];
  }
  if (thread < width) plan.scales_out(tile, k0 + thread) = __uint_as_float(top);
}

template <typename T>
void launch(const ScalingAwareTranspose& op, const GroupTiles& tiles, FaultWord faults,
            cudaStream_t stream) {
  const TransposePlan<T> plan{op.codes.as<const T, 2>(),
                              op.scales.as<const float, 2>(),
                              op.codes_out.as<T, 2>(),
                              op.scales_out.as<float, 2>(),
                              op.underflow,
                              ceil_div(op.codes.extent[1], kTile),
                              tiles,
                              faults};
  const Index blocks =
      (ceil_div(op.codes.extent[0], kTile) + op.group_ends.extent[0]) * plan.column_blocks;
  transpose_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(plan);
}

}  // namespace

void DeviceBackend::run(const ScalingAwareTranspose& op) {
  const Index rows = op.codes.extent[0];
  const Index groups = op.group_ends.extent[0];
  const Scratch<std::int64_t> before(*this, groups + 1);
  count_units(*this, op.group_ends, rows, kTile, before.data());
  if (op.codes.elements() == 0 || groups == 0) return;
  const GroupTiles tiles{op.group_ends.as<const std::int32_t, 1>(), before.data(), kTile, rows};
  if (op.codes.dtype == Dtype::e4m3) {
    launch<E4M3>(op, tiles, faults(), stream());
  } else {
    launch<E4M3Fnuz>(op, tiles, faults(), stream());
  }
  check_launch("scaling_aware_transpose");
}

}  // namespace mxo::cuda
