// The sums of the passes of one output, recombined to the product of two K-vectors.
#pragma once

#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/slices.cuh"

namespace mxo::cuda {

inline constexpr int kMaxPasses = 2 * kMaxSlices - 1;
/// Outputs of a tile: the sums of pass w + 1 of an output lie so many after those of pass w.
inline constexpr Index kTileOutputs = 128 * 256;

/// Sums of neighbouring passes, weighted: pass 3 t + k of this block's output `at` counts 256^k.
template <typename Sum>
__device__ std::int64_t three_passes(const Sum* sums, int t, int passes) {
  std::int64_t sum = 0;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    if (3 * t + k >= passes) continue;
    sum += static_cast<std::int64_t>(__ldcg(sums + (3 * t + k) * kTileOutputs)) << 8 * k;
  }
  return sum;
}

/// A product of integers: `sum`, or off from it by no more than `lost`.
struct Recombined {
  double sum;
  double lost;
};
template <typename Sum>
__device__ Recombined recombine(const Sum* sums, int passes) {
  Recombined all{0, 0};
#pragma unroll
  for (int t = (kMaxPasses - 1) / 3; t >= 0; --t) {
    if (3 * t >= passes) continue;
    // Below 2^53: at most kMaxK products of five pairs of slices, weighted by 2^16 at most.
    const auto part = static_cast<double>(three_passes(sums, t, passes));
    const TwoSum next = two_sum(all.sum * 0x1p24, part);
    all = {next.sum, all.lost * 0x1p24 + fabs(next.lost)};
  }
  return all;
}

/// The same in binary32: the sum, and the magnitudes of what it was added from.
struct Estimate {
  float sum;
  float magnitude;
};
template <typename Sum>
__device__ Estimate estimate(const Sum* sums, int passes) {
  Estimate all{0, 0};
#pragma unroll
  for (int w = kMaxPasses - 1; w >= 0; --w) {
    if (w >= passes) continue;
    const auto part = static_cast<float>(__ldcg(sums + w * kTileOutputs));
    all = {fmaf(all.sum, 256.0f, part), fmaf(all.magnitude, 256.0f, fabsf(part))};
  }
  return all;
}

}  // namespace mxo::cuda
