// Sums over the positions of a slice, and the figures they give.
#include "golden/judge/measures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mxo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void MeasureSums::add(const Judge::Finding& found) {
  const Element& expected = found.expected;
  const Element& actual = found.actual;
  ++counts_.elements;
  counts_.differing += found.differs;
  counts_.violating += found.violates;
  counts_.not_bounded += found.not_bounded;
  counts_.unbounded_differing += found.not_bounded && found.differs && !found.violates;
  if (expected.nan || actual.nan) {
    ++(expected.nan && actual.nan ? counts_.nan_both : counts_.nan_one_sided);
    return;
  }
  counts_.max_ulp = std::max(counts_.max_ulp, found.distance);
  if (infinity_differs(expected, actual)) {
    ++counts_.inf_one_sided;
    counts_.max_absolute = counts_.max_relative = kInfinity;
    return;
  }
  if (expected.infinite) return;

  if (found.judged) counts_.sums.allowed += found.allowed * found.allowed;
  const double x = expected.value;
  const double y = actual.value;
  const double error = std::fabs(y - x);
  counts_.sums.expected += x * x;
  counts_.sums.actual += y * y;
  counts_.sums.product += x * y;
  counts_.sums.error += error * error;
  if (error == 0) return;
  if (found.judged) counts_.sums.judged += error * error;
  counts_.max_absolute = std::max(counts_.max_absolute, error);
  counts_.max_relative = std::max(counts_.max_relative, x == 0 ? kInfinity : error / std::fabs(x));
}

void MeasureSums::add(const Neighbours& found) {
  counts_.elements += found.count;
  FigureSums& sums = counts_.sums;
  sums.expected += found.sums.expected;
  sums.actual += found.sums.actual;
  sums.product += found.sums.product;
  sums.allowed += found.sums.allowed;
  if (found.differing == 0) return;
  counts_.differing += std::popcount(found.differing);
  counts_.violating += found.violating;
  counts_.max_ulp = std::max(counts_.max_ulp, found.max_ulp);
  counts_.max_absolute = std::max(counts_.max_absolute, found.max_absolute);
  counts_.max_relative = std::max(counts_.max_relative, found.max_relative);
  sums.error += found.sums.error;
  sums.judged += found.sums.judged;
}

void MeasureSums::add(const MeasureSums& other) {
  counts_.elements += other.counts_.elements;
  counts_.not_compared += other.counts_.not_compared;
  counts_.differing += other.counts_.differing;
  counts_.violating += other.counts_.violating;
  counts_.not_bounded += other.counts_.not_bounded;
  counts_.unbounded_differing += other.counts_.unbounded_differing;
  counts_.nan_both += other.counts_.nan_both;
  counts_.nan_one_sided += other.counts_.nan_one_sided;
  counts_.inf_one_sided += other.counts_.inf_one_sided;
  counts_.max_ulp = std::max(counts_.max_ulp, other.counts_.max_ulp);
  counts_.max_absolute = std::max(counts_.max_absolute, other.counts_.max_absolute);
  counts_.max_relative = std::max(counts_.max_relative, other.counts_.max_relative);
  FigureSums& sums = counts_.sums;
  const FigureSums& more = other.counts_.sums;
  sums.expected += more.expected;
  sums.actual += more.actual;
  sums.product += more.product;
  sums.error += more.error;
  sums.judged += more.judged;
  sums.allowed += more.allowed;
}

/// What a right kernel has at least, and whether this is less.
void MeasureSums::hold_to_right(Measures& m) const {
  const FigureSums& sums = counts_.sums;
  m.right_sqnr = sums.allowed == 0    ? kInfinity
                 : sums.expected == 0 ? -kInfinity
                                      : 10 * std::log10(sums.expected / sums.allowed);
  // Sums of n doubles are known to n units in the last place.
  const double known = static_cast<double>(m.elements) * 0x1p-50;
  m.below_right = sums.judged > sums.allowed * (1 + known);
}

Measures MeasureSums::measures() const {
  Measures m = counts_;
  const FigureSums& sums = m.sums;
  // A square below 2^-1022 is off by 2^-1075; of sums that have overflowed nothing is known.
  const double lost = static_cast<double>(m.elements) * 0x1p-1074;
  const double most = std::max(sums.expected, sums.error);
  if (m.nan_one_sided + m.inf_one_sided > 0) {
    m.sqnr = -kInfinity;
  } else if (m.max_absolute == 0) {
    m.sqnr = kInfinity;
  } else if (!std::isfinite(most) || most < 0x1p40 * lost) {
    m.sqnr = std::numeric_limits<double>::quiet_NaN();
  } else if (sums.expected == 0) {
    m.sqnr = -kInfinity;
  } else {
    m.sqnr = 10 * std::log10(sums.expected / (sums.error + lost));
  }
  const double squares = sums.expected + sums.actual;
  m.calc_diff = squares == 0 ? 0 : 1 - 2 * sums.product / squares;
  const double norms = std::sqrt(sums.expected) * std::sqrt(sums.actual);
  m.cosine = norms == 0 ? (squares == 0 ? 1 : 0) : sums.product / norms;
  return m;
}

}  // namespace mxo
