// exp, log, cos and sin with the same bits on every machine, whatever its C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "formats/exp.h"
#include "formats/tensor_view.h"

namespace mxo::tools {

/// exp(x) for x <= 0, off by less than 2 units in the last place; below -87 exp(-87).  Every step
/// is one rounding in f32: x = n ln 2 + r, exp(r) by a polynomial, times 2^n.  Nothing branches, so
/// that a compiler makes vectors of a loop over it.  Source: Cephes, expf.
inline float exp_small(float x) {
  x = x < -87.0f ? -87.0f : x;         // NaN stays
  constexpr float kWhole = 0x1.8p23f;  // what is added to it is rounded to a whole number
  const float shifted = x * 0x1.715476p+0f + kWhole;
  const float n = shifted - kWhole;
  const float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = (p * (r * r) + r) + 1.0f;
  return e * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000u);
}
/// Of a double, for tests against differences, the library's.
inline double exp_small(double x) { return std::exp(x); }

/// log of a float >= 1.  The library's double result y is corrected by exp(-y) * x - 1, so that
/// what it may err in its last bits is gone before the one rounding to float.
inline float log_of(float x) {
  const double wide = x;
  const double y = std::log(wide);
  const DoublePair e = exp_pair(-y);
  const double correction = std::fma(wide, e.high, -1.0) + wide * e.low;
  const double sum = y + correction;
  return round_pair({sum, correction - (sum - y)});
}
inline double log_of(double x) { return std::log(x); }

/// (1 + cos(pi t)) / 2 for t in [0, 1], by a series for the sine of pi (1/2 - t), |error| < 1e-12.
inline double half_cosine(double t) {
  const double x = 0x1.921fb54442d18p+1 * (0.5 - t);
  double sum = 0.0;
  for (int n = 21; n >= 3; n -= 2) sum = (1.0 - sum) * (x * x) / (n * (n - 1));
  return 0.5 * (1.0 + x * (1.0 - sum));
}

/// cos and sin of x in [0, 2^20), |error| < 1e-9: x less a multiple of 2 pi, halved eight times,
/// two terms more than needed of the series, doubled again.
inline std::pair<double, double> cos_sin(double x) {
  constexpr double kTurn = 0x1.921fb54442d18p+2;
  constexpr double kTurnRest = 0x1.1a62633145c07p-52;
  const double turns = std::floor(x / kTurn);
  const double r = ((x - turns * kTurn) - turns * kTurnRest) / 16.0;
  double c = 1.0;
  double s = 1.0;
  for (int n = 12; n >= 2; n -= 2) {
    c = 1.0 - c * (r * r) / (n * (n - 1));
    s = 1.0 - s * (r * r) / (n * (n + 1));
  }
  s *= r;
  for (int i = 0; i < 4; ++i) {
    const double doubled = 2.0 * s * c;
    c = 1.0 - 2.0 * s * s;
    s = doubled;
  }
  return {c, s};
}

/// x^n by n multiplications.
inline double power(double x, long n) {
  double product = 1.0;
  for (long i = 0; i < n; ++i) product *= x;
  return product;
}

}  // namespace mxo::tools
