// A sum of doubles without rounding: for what one double cannot decide.
#pragma once

#include <vector>

namespace mxo {

/// Parts that do not overlap (Shewchuk, Adaptive precision floating-point arithmetic, 1997): each
/// addition keeps what it rounds off.  Exact while no part leaves the range of doubles: operands of
/// products lie between 2^-332 and 2^288.
class ExactTerms {
 public:
  void add(double term);
  /// a * b.
  void add_product(double a, double b);
  /// -1, 0 or 1.
  int sign() const;

 private:
  std::vector<double> parts_;  ///< from the least; none is 0
};

}  // namespace mxo
