// Least squares: how much of each of some features there is in the actual output.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace mxo {

struct LeastSquaresFit {
  std::vector<double> x;
  /// Of each unknown its standard error where equations are off by 1; infinite where no equation
  /// has it: it is 0, and nothing is known of it.
  std::vector<double> sigma;
  double left = 0.0;    ///< the sum of the squares of what the equations are off by
  double misfit = 0.0;  ///< its root mean square, an equation
};

/// Equations value = sum of x[u] features[u], solved by their normal equations.  Rows are kept, so
/// that what is left is summed from themselves.
class LeastSquares {
 public:
  explicit LeastSquares(std::size_t unknowns) : unknowns_(unknowns) {}

  /// Both sides are multiplied by `weight`.
  void add(std::span<const double> features, double value, double weight = 1.0);
  std::size_t equations() const { return values_.size(); }

  /// None where the features leave it open.  `ridge`, a share of each unknown's own square, marks
  /// as explained what is nearly open for the smaller numbers.
  std::optional<LeastSquaresFit> solved(double ridge = 1e-12) const;

 private:
  std::size_t unknowns_;
  std::vector<double> rows_;
  std::vector<double> values_;
};

}  // namespace mxo
