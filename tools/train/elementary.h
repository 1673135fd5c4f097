// exp, log and cos with the same bits on every machine, whatever its C library.
#pragma once

#include <cmath>

#include "formats/exp.h"

namespace mxo::tools {

/// exp of a float, correctly rounded; of a double, for tests against differences, the library's.
inline float exp_of(float x) { return exp_rn(x); }
inline double exp_of(double x) { return std::exp(x); }

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

/// x^n by n multiplications.
inline double power(double x, long n) {
  double product = 1.0;
  for (long i = 0; i < n; ++i) product *= x;
  return product;
}

}  // namespace mxo::tools
