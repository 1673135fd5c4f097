// Sums over the positions of a slice, and the figures they give.
#include "golden/judge/measures.h"

#include <algorithm>
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

  if (found.judged) allowed_squared_ += found.allowed * found.allowed;
  const double x = expected.value;
  const double y = actual.value;
  const double error = std::fabs(y - x);
  expected_squared_ += x * x;
  actual_squared_ += y * y;
  product_ += x * y;
  error_squared_ += error * error;
  if (error == 0) return;
  if (found.judged) judged_squared_ += error * error;
  counts_.max_absolute = std::max(counts_.max_absolute, error);
  counts_.max_relative = std::max(counts_.max_relative, x == 0 ? kInfinity : error / std::fabs(x));
}

void MeasureSums::add(const MeasureSums& other) {
  counts_.elements += other.counts_.elements;
  counts_.not_compared += other.counts_.not_compared;
  counts_.differing += other.counts_.differing;
  counts_.violating += other.counts_.violating;
  counts_.not_bounded += other.counts_.not_bounded;
  counts_.nan_both += other.counts_.nan_both;
  counts_.nan_one_sided += other.counts_.nan_one_sided;
  counts_.inf_one_sided += other.counts_.inf_one_sided;
  counts_.max_ulp = std::max(counts_.max_ulp, other.counts_.max_ulp);
  counts_.max_absolute = std::max(counts_.max_absolute, other.counts_.max_absolute);
  counts_.max_relative = std::max(counts_.max_relative, other.counts_.max_relative);
  expected_squared_ += other.expected_squared_;
  actual_squared_ += other.actual_squared_;
  product_ += other.product_;
  error_squared_ += other.error_squared_;
  judged_squared_ += other.judged_squared_;
  allowed_squared_ += other.allowed_squared_;
}

/// What a right kernel has at least, and whether this is less.
void MeasureSums::hold_to_right(Measures& m) const {
  m.right_sqnr = allowed_squared_ == 0    ? kInfinity
                 : expected_squared_ == 0 ? -kInfinity
                                          : 10 * std::log10(expected_squared_ / allowed_squared_);
  // Sums of n doubles are known to n units in the last place.
  const double known = static_cast<double>(m.elements) * 0x1p-50;
  m.below_right = judged_squared_ > allowed_squared_ * (1 + known);
}

Measures MeasureSums::measures() const {
  Measures m = counts_;
  if (m.nan_one_sided + m.inf_one_sided > 0) {
    m.sqnr = -kInfinity;
  } else if (error_squared_ == 0) {
    m.sqnr = kInfinity;
  } else if (expected_squared_ == 0) {
    m.sqnr = -kInfinity;
  } else {
    m.sqnr = 10 * std::log10(expected_squared_ / error_squared_);
  }
  const double squares = expected_squared_ + actual_squared_;
  m.calc_diff = squares == 0 ? 0 : 1 - 2 * product_ / squares;
  const double norms = std::sqrt(expected_squared_) * std::sqrt(actual_squared_);
  m.cosine = norms == 0 ? (squares == 0 ? 1 : 0) : product_ / norms;
  return m;
}

}  // namespace mxo
