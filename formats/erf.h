// The error function and the hyperbolic tangent of a float, correctly rounded: by the machine's
// binary64 function where that decides, else by a series in pairs.  The same bits on host and
// device. Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cmath>

#include "formats/exp.h"

namespace mxo {

/// What the functions below give when our own flags compile them (formats/erf.cc).
namespace library {
MXO_HD float erf_rn(float x);
MXO_HD float tanh_rn(float x);
}  // namespace library

inline namespace MXO_ARITHMETIC {
namespace pairs {

/// a + b exactly (Knuth's TwoSum).
MXO_HD inline DoublePair two_sum(double a, double b) {
  const double sum = a + b;
  const double other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}
/// The same for |a| >= |b| (Dekker's Fast2Sum).
MXO_HD inline DoublePair fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// Sums and products of pairs, to a relative error below 2^-98 (Joldes, Muller, Popescu 2017,
// algorithms 6, 9, 12 and 15).
MXO_HD inline DoublePair plus(DoublePair a, DoublePair b) {
  const DoublePair high = two_sum(a.high, b.high);
  const DoublePair low = two_sum(a.low, b.low);
  const DoublePair middle = fast_two_sum(high.high, high.low + low.high);
  return fast_two_sum(middle.high, low.low + middle.low);
}
MXO_HD inline DoublePair times(DoublePair a, DoublePair b) {
  const double product = a.high * b.high;
  const double error = std::fma(a.high, b.high, -product);
  return fast_two_sum(product, error + std::fma(a.high, b.low, a.low * b.high));
}
MXO_HD inline DoublePair times(DoublePair a, double b) { return times(a, DoublePair{b, 0.0}); }
MXO_HD inline DoublePair over(DoublePair a, double b) {
  const double quotient = a.high / b;
  const double rest = std::fma(-quotient, b, a.high) + a.low;
  return fast_two_sum(quotient, rest / b);
}
MXO_HD inline DoublePair over(DoublePair a, DoublePair b) {
  const double quotient = a.high / b.high;
  const DoublePair rest = plus(a, times(b, -quotient));
  return fast_two_sum(quotient, rest.high / b.high);
}

/// Whether every number within 2^-48 of `value`, relatively, rounds to one float.  A library's
/// binary64 function is off by 2^-50 of its value at most: glibc's, LLVM's and CUDA's erf and tanh
/// by 2 units of its last place.
MXO_HD inline bool decides(double value) {
  return static_cast<float>(value - value * 0x1p-48) == static_cast<float>(value + value * 0x1p-48);
}

/// 2 / sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1)), |x| < 4: terms stay below 2^18, so that
/// what cancels leaves an error below 2^-76.
MXO_HD inline DoublePair erf_pair(double x) {
  constexpr DoublePair kTwoOverRootPi{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};
  const double square = x * x;  // exact: x is a float
  DoublePair power{x, 0.0};     // (-1)^n x^(2n+1) / n!
  DoublePair sum = power;
  for (int n = 1; std::fabs(power.high) > 0x1p-110 * std::fabs(x); ++n) {
    power = over(times(power, -square), n);
    sum = plus(sum, over(power, 2 * n + 1));
  }
  return times(sum, kTwoOverRootPi);
}

/// d / (d + 2) with d = exp(2 x) - 1 by its series, 0 < x < 10: all terms have one sign.
MXO_HD inline DoublePair tanh_pair(double x) {
  DoublePair term{2 * x, 0.0};
  DoublePair sum = term;
  for (int n = 2; term.high > 0x1p-110 * x; ++n) {
    term = over(times(term, 2 * x), n);
    sum = plus(sum, term);
  }
  return over(sum, plus(sum, {2.0, 0.0}));
}

}  // namespace pairs

/// erf(x) = 2 / sqrt(pi) * the integral of exp(-t^2) over 0 .. x, rounded once to nearest even.
/// erf(-0) is -0; NaN is the canonical one.
MXO_HD inline float erf_rn(float x) {
  if constexpr (MXO_THROUGH_LIBRARY) return library::erf_rn(x);
  if (x != x) return bit_cast<float>(0x7FC00000u);
  if (std::fabs(x) >= 4.0f) return std::copysign(1.0f, x);  // 1 - erf(4) is below 2^-25
  const double value = std::erf(static_cast<double>(x));
  return pairs::decides(value) ? static_cast<float>(value) : round_pair(pairs::erf_pair(x));
}

/// tanh(x), rounded once to nearest even.  tanh(-0) is -0; NaN is the canonical one.
MXO_HD inline float tanh_rn(float x) {
  if constexpr (MXO_THROUGH_LIBRARY) return library::tanh_rn(x);
  if (x != x) return bit_cast<float>(0x7FC00000u);
  if (std::fabs(x) >= 10.0f) return std::copysign(1.0f, x);  // 1 - tanh(10) is below 2^-27
  const double value = std::tanh(static_cast<double>(x));
  if (pairs::decides(value)) return static_cast<float>(value);
  return std::copysign(round_pair(pairs::tanh_pair(std::fabs(static_cast<double>(x)))), x);
}

}  // namespace MXO_ARITHMETIC
}  // namespace mxo
