// log(1 + x) and softplus of a float: the same bits on host and device.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/exp.h"

namespace mxo {

/// The same, compiled with our own flags (formats/exp.cc).
namespace library {
MXO_HD float log1p_rn(float x);
}  // namespace library

inline namespace MXO_ARITHMETIC {

/// a + b, |a| >= |b|, rounded once.
MXO_HD inline float rounded_sum(double a, double b) {
  const double high = a + b;
  return round_pair({high, b - (high - a)});
}

/// log(1 + x) of x >= 0 or NaN, rounded once from a value that errs by less than 2^-50 of it.
///
/// Below 2^-5 it is 2 atanh(s), s = x / (2 + x), as a pair.  Else y = log(1 + x) comes from a
/// series in binary64, and one step of Newton's by exp(y), which errs by 2^-58, completes it.
MXO_HD inline float log1p_rn(float x) {
  if constexpr (MXO_THROUGH_LIBRARY) return library::log1p_rn(x);
  if (x != x) return bit_cast<float>(0x7FC00000u);
  if (x == bit_cast<float>(0x7F800000u) || x < 0x1p-40f) return x;  // x^2 / 2 is below half a step
  const auto wide = static_cast<double>(x);
  if (x < 0x1p-5f) {
    const double high = wide / (2.0 + wide);
    const double low = std::fma(-high, 2.0 + wide, wide) / (2.0 + wide);  // 2 + x: exact from 2^-29
    const double square = high * high;
    double tail = 1.0 / 13.0;
    tail = std::fma(tail, square, 1.0 / 11.0);
    tail = std::fma(tail, square, 1.0 / 9.0);
    tail = std::fma(tail, square, 1.0 / 7.0);
    tail = std::fma(tail, square, 1.0 / 5.0);
    tail = std::fma(tail, square, 1.0 / 3.0);
    return rounded_sum(2.0 * high, 2.0 * std::fma(high * square, tail, low));
  }
  const double sum = 1.0 + wide;  // exact: x has 24 bits and lies from 2^-5 on; above 2^53 x is all
  const auto word = bit_cast<std::uint64_t>(sum);
  int exponent = static_cast<int>(word >> 52) - 1023;
  double m = bit_cast<double>((word & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double tail = 1.0 / 21.0;
  for (int odd = 19; odd >= 1; odd -= 2) tail = std::fma(tail, square, 1.0 / odd);
  const double y = std::fma(static_cast<double>(exponent), 0x1.62e42fefa39efp-1, 2.0 * s * tail);
  const DoublePair e = exp_pair(y);
  return rounded_sum(y, ((sum - e.high) - e.low) / sum);
}

/// x above 20, else log1p_rn(exp_rn(x)): torch's softplus, beta 1 and threshold 20.
MXO_HD inline float softplus_f32(float x) { return x > 20.0f ? x : log1p_rn(exp_rn(x)); }

/// The gradient of s = sqrt(softplus_f32(x)) times ds.
MXO_HD inline float through_sqrtsoftplus(float ds, float s, float x) {
  return (ds / (2.0f * s)) * sigmoid_rn(x);
}

}  // namespace MXO_ARITHMETIC
}  // namespace mxo
