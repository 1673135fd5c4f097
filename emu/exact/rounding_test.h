// Ziv's rounding test: the rounding of a real number of which a binary64 and a bound of the
// difference are known.  docs/exact_product.md.
#pragma once

#include <cmath>
#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

struct RoundingTest {
  std::uint32_t bits;
  bool passed;  ///< else the bounds round to different bits
};

/// The rounding of every number within `off` of `sum`, times `scale`, by round(double).  `scale`
/// has at most 48 bits, so that p = fl(sum scale) and fma(sum, scale, -p) are the product; `off`
/// may be infinite, and 0 says that `sum` is the number itself.
template <typename Round>
MXO_HD RoundingTest test_rounding(double sum, double off, double scale, const Round& round) {
  const double value = sum * scale + 0.0;  // an exact zero is +0
  const double least = off * fabs(scale) + fabs(fma(sum, scale, -value));
  // Raised by more than the roundings of itself and of the bounds.  No branch: a device tests
  // several numbers at once.
  const double slack = least == 0.0 ? 0.0 : least * (1.0 + 0x1p-20) + fabs(value) * 0x1p-51;
  const std::uint32_t low = round(value - slack);
  return {low, slack < HUGE_VAL && low == round(value + slack)};
}

/// The bound of a sum in binary64 of the products of two K-vectors; of both the product of norms,
/// that of norms over quanta, and the sum of the roundings that each can cause.
MXO_HD inline double bound_of_sum(double norms, double reach, double roundings) {
  return reach <= 0x1p53 ? 0.0 : norms * roundings * 0x1p-53;
}

/// a + b exactly: the rounded sum and what it lacks (Knuth).
struct TwoSum {
  double sum;
  double lost;
};
MXO_HD inline TwoSum two_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

}  // namespace mxo
