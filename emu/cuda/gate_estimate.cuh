// The gate by the chip's approximate functions, with a bound: most results need no more than that.
#pragma once

#include "emu/cuda/canonical.cuh"
#include "emu/cuda/quantize_kernels.cuh"
#include "emu/reference/swiglu_elements.h"

namespace mxo::cuda {

/// |estimate - what the definition's f32 steps give| <= kGateSlack * |estimate|, where trusted.
///
/// exp(-a) = 2^t (1 + r ln 2), t + r = -a log2(e).  In units of 2^-24, relatively: ex2.approx is
/// off by 2.5 and rcp.approx by 1.7 (every operand of formats/approximate.h), the correction by 1
/// and its square by 0.2, the sum with 1 by another: sigma by 6.4.  Three products here and the
/// four roundings of the definition (sigma, by a, by b, by the probability): 13.4.
inline constexpr float kGateSlack = 0x1p-20f;  // 16 units: the ends are rounded, too
/// The bound in units of the last place, of which each is at least 2^-24 of the number.
inline constexpr std::uint32_t kGateUlps = 14;

__device__ inline float ex2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float rcp_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// An estimate of swiglu_gated(a, b), for |a| below kGateLargest and a of type X.
template <typename X>
__device__ inline float gate_estimate(float a, float b) {
  float t;
  float correction;                         // r ln 2
  if constexpr (std::is_same_v<X, BF16>) {  // 8 bits of a by 16 of log2(e): exact
    constexpr float kLog2eHigh = 0x1.7154p+0f;
    constexpr float kLog2eLowLn2 = 0x1.480fb60000000p-18f;
    t = -a * kLog2eHigh;
    correction = -a * kLog2eLowLn2;
  } else {
    constexpr float kLog2eHigh = 0x1.715476p+0f;
    constexpr float kLog2eLow = 0x1.4ae0c0p-26f;
    constexpr float kLn2 = 0x1.62e430p-1f;
    t = -a * kLog2eHigh;
    correction = fmaf(-a, kLog2eLow, fmaf(-a, kLog2eHigh, -t)) * kLn2;
  }
  const float power = ex2_approximate(t);
  const float e = fmaf(power, correction, power);
  return (a * rcp_approximate(1.0f + e)) * b;
}

/// With operands below these, a result above kGateSmallest had no subnormal on its way: sigma is
/// above 2^-47, a * sigma above 2^-100.
inline constexpr float kGateLargest = 32.0f;
inline constexpr float kGateLargestFactor = 0x1p30f;
inline constexpr float kGateSmallest = 0x1p-40f;

/// The definition, apart from the code around it: few elements come here.
static __device__ __noinline__ float gate_exactly(float a, float b) { return swiglu_gated(a, b); }

/// A grid of rows by strips of packs, no division in the kernel: threads take `each` packs, a strip
/// of threads apart.
struct PackedRows {
  dim3 blocks;
  unsigned threads;
  PackedRows(Index rows, Index packs, int most_threads, int each)
      : threads(static_cast<unsigned>(
            std::min<Index>(round_up(ceil_div(packs, each), 32), most_threads))) {
    blocks = dim3(static_cast<unsigned>(rows),
                  static_cast<unsigned>(ceil_div(packs, static_cast<Index>(threads) * each)));
  }
};
inline constexpr Index kWidestPacked = Index{65535} * 128 * 8;  // strips of a grid

/// Eight neighbours of a and of b, as floats, and the probability of their row, if there is one.
template <typename X, bool Weighted>
struct GateInputs {
  float a[8];
  float b[8];
  float probability;
  bool usual;  ///< all below their largest, and numbers

  __device__ GateInputs(const Eight<X>& eight_a, const Eight<X>& eight_b, float weight)
      : probability(weight) {
    eight_a.values(1.0f, a);
    eight_b.values(1.0f, b);
    usual = eight_a.amax(NanRule::propagate) < __float_as_uint(kGateLargest) &&
            eight_b.amax(NanRule::propagate) < __float_as_uint(kGateLargestFactor) &&
            fabsf(weight) < kGateLargestFactor;
  }
  __device__ float estimate(int j) const {
    const float gated = gate_estimate<X>(a[j], b[j]);
    return Weighted ? gated * probability : gated;
  }
  __device__ float exact(int j) const {
    const float gated = gate_exactly(a[j], b[j]);
    return Weighted ? gated * probability : gated;
  }
  /// True where the estimate of element j is a zero that the definition has, too.
  __device__ bool is_zero(int j) const { return usual && (a[j] == 0.0f || b[j] == 0.0f); }
};

/// True if every number within kGateUlps of y rounds to one bf16: y is further from the middle
/// between two.  `upper` holds y's bits plus half a unit of bf16.
__device__ inline bool rounds_alike(std::uint32_t upper) {
  return (upper << 16) + (kGateUlps << 16) > 2 * kGateUlps << 16;
}

/// Eight outputs rounded to bf16.
template <typename X, bool Weighted>
__device__ inline Eight<BF16> gate_in_bf16(const GateInputs<X, Weighted>& in) {
  std::uint32_t upper[8];  // a bf16 in the upper half
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float y = in.estimate(j);
    upper[j] = __float_as_uint(y) + 0x8000u;
    if (rounds_alike(upper[j]) && in.usual && fabsf(y) > kGateSmallest) continue;
    if (in.is_zero(j)) continue;
    upper[j] = static_cast<std::uint32_t>(canonical<BF16>(in.exact(j)).bits) << 16;
  }
  Eight<BF16> result;
  result.word =
      make_uint4(__byte_perm(upper[0], upper[1], 0x7632), __byte_perm(upper[2], upper[3], 0x7632),
                 __byte_perm(upper[4], upper[5], 0x7632), __byte_perm(upper[6], upper[7], 0x7632));
  return result;
}

/// Calls run(std::bool_constant<given>).
template <typename Fn>
void visit_weighted(const Operand& probs, Fn&& run) {
  if (probs.given()) {
    run(std::true_type{});
  } else {
    run(std::false_type{});
  }
}

}  // namespace mxo::cuda
