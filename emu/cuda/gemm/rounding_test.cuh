// The rounding test with the conversions of the device, and one in binary32 before it.
#pragma once

#include "emu/exact/rounding_test.h"

namespace mxo::cuda {

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
  return mxo::test_rounding(sum, off, scale,
                            [=](double v) { return round_double(v * power, mantissa); });
}

}  // namespace mxo::cuda
