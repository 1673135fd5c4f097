// Ends of groups that only the device can read: checked, searched and summed there.
#pragma once

#include "emu/cuda/launch.cuh"

namespace mxo::cuda {

using Ends = TensorView<const std::int32_t, 1>;

/// The first group that ends beyond `row`; the number of groups if none does.  Ends that decrease
/// give some group, never one outside.
__device__ inline Index group_of(const Ends& ends, Index row) {
  Index first = 0;
  Index past = ends.extent[0];
  while (first < past) {
    const Index middle = (first + past) / 2;
    if (ends(middle) > row) {
      past = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

__device__ inline Index start_of(const Ends& ends, Index g) { return g > 0 ? ends(g - 1) : 0; }

/// Reports DeviceFault::group_ends unless the ends do not decrease, lie within 0 .. rows and are
/// multiples of `multiple_of`.
void check_group_ends(DeviceBackend& backend, const Operand& group_ends, Index rows,
                      Index multiple_of = 1);

/// check_group_ends, and units_before[g] = sum over h < g of ceil(size_h / unit), for g = 0 .. E,
/// the total included.  Sizes below zero count as zero.
void count_units(DeviceBackend& backend, const Operand& group_ends, Index rows, Index unit,
                 std::int64_t* units_before);

/// The sum of `value` over the threads before this one in a block of 1024, and over all.
struct BlockScan {
  Index before;
  Index all;
};
__device__ inline BlockScan scan_block(Index value) {
  __shared__ Index warp_sum[33];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Index sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const Index below = __shfl_up_sync(0xFFFFFFFFu, sum, step);
    if (lane >= step) sum += below;
  }
  __syncthreads();  // of an earlier scan
  if (lane == 31) warp_sum[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    Index total = warp_sum[lane];
    for (int step = 1; step < 32; step *= 2) {
      const Index below = __shfl_up_sync(0xFFFFFFFFu, total, step);
      if (lane >= step) total += below;
    }
    warp_sum[lane] = total;
  }
  __syncthreads();
  return {(warp > 0 ? warp_sum[warp - 1] : 0) + sum - value, warp_sum[31]};
}
inline constexpr int kScanThreads = 1024;

}  // namespace mxo::cuda
