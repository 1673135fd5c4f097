// Sums over the positions of a slice, and the figures they give.
#pragma once

#include "golden/judge/judge.h"
#include "golden/judge/verdict.h"

namespace mxo {

/// What one position contributes; sums of disjoint slices add up.
class MeasureSums {
 public:
  void skip() { ++counts_.not_owed; }
  void add(const Judge::Finding& found);
  void add(const MeasureSums& other);
  Measures measures() const;

 private:
  Measures counts_;  // the figures made of sums stay untouched until measures()
  double expected_squared_ = 0;
  double actual_squared_ = 0;
  double product_ = 0;
  double error_squared_ = 0;
};

/// An infinity on one side, or two of opposite signs.
inline bool infinity_differs(const Element& a, const Element& b) {
  return !a.nan && !b.nan && (a.infinite || b.infinite) && a.value != b.value;
}

}  // namespace mxo
