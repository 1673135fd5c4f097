// The rounding of a real number of which a binary64 and a bound of the difference are known.
#pragma once

#include <cstdint>

namespace mxo::cuda {

/// a + b exactly: the rounded sum and what it lacks (Knuth).
struct TwoSum {
  double sum;
  double lost;
};
__device__ inline TwoSum two_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

/// The bits of the nearest f32 (`mantissa` 23) or bf16 (7), ties to even.  Zero is +0.
__device__ inline std::uint32_t round_double(double v, int mantissa) {
  v += 0.0;
  if (mantissa == 23) return __float_as_uint(__double2float_rn(v));
  // To odd, then to nearest: one rounding (Boldo and Melquiond, 2008).
  const float odd = __double2float_rz(v);
  std::uint32_t bits = __float_as_uint(odd);
  if (static_cast<double>(odd) != v) bits |= 1u;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

struct RoundingTest {
  std::uint32_t bits;
  bool passed;  ///< else the bounds round to different bits
};

/// The nearest bf16 of every number within `off` of `sum`, times 2^exponent, if it is normal; `off`
/// counts the roundings of the bounds.
__device__ inline RoundingTest test_rounding_bf16(float sum, float off, int exponent) {
  const auto nearest = [](float v) {
    const std::uint32_t bits = __float_as_uint(v);
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  };
  const std::uint32_t low = nearest(sum - off);
  const std::uint32_t high = nearest(sum + off);
  const int field = static_cast<int>(low >> 7 & 0xFF);
  const int moved = field + exponent;
  return {low + (static_cast<std::uint32_t>(exponent) << 7),
          low == high && field > 0 && field < 0xFF && moved > 0 && moved < 0xFF};
}

/// The rounding of every number within `off` of `sum`, times `scale` * 2^exponent.  `scale` has at
/// most 48 bits; finite numbers, no step leaves the range of normal binary64.
__device__ inline RoundingTest test_rounding(double sum, double off, double scale, int exponent,
                                             int mantissa) {
  const double power = __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
  const double v = sum * scale;
  off = off * fabs(scale) + fabs(fma(sum, scale, -v));
  if (off == 0) return {round_double(v * power, mantissa), true};
  // Raised by more than the roundings of itself and of the bounds.
  off = off * (1 + 0x1p-20) + fabs(v) * 0x1p-51;
  const std::uint32_t low = round_double((v - off) * power, mantissa);
  const std::uint32_t high = round_double((v + off) * power, mantissa);
  return {low, low == high};
}

}  // namespace mxo::cuda
