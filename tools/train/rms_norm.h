// Root-mean-square normalisation of rows, and its gradients.
#pragma once

#include <cmath>

#include "tools/train/matrix.h"

namespace mxo::tools {

inline constexpr double kRmsEpsilon = 1e-6;

/// y = (x * r) * gain with r = 1 / sqrt(sum of squares / D + epsilon), the sum ascending.
template <typename Real>
struct RmsNorm {
  Matrix<Real> x;
  Row<Real> inverse;  ///< r of every row

  Matrix<Real> forward(const Matrix<Real>& input, const Real* gain) {
    x = input;
    inverse.resize(x.rows());
    Matrix<Real> y(x.rows(), x.cols());
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      Real squares = 0;
      for (Eigen::Index d = 0; d < x.cols(); ++d) squares += x(t, d) * x(t, d);
      const Real mean = squares / static_cast<Real>(x.cols());
      inverse(t) = Real{1} / std::sqrt(mean + static_cast<Real>(kRmsEpsilon));
      for (Eigen::Index d = 0; d < x.cols(); ++d) y(t, d) = (x(t, d) * inverse(t)) * gain[d];
    }
    return y;
  }

  /// Adds to dgain, row by row, and returns dx.
  Matrix<Real> backward(const Matrix<Real>& dy, const Real* gain, Real* dgain) const {
    Matrix<Real> dx(x.rows(), x.cols());
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      const Real r = inverse(t);
      Real dot = 0;
      for (Eigen::Index d = 0; d < x.cols(); ++d) {
        dgain[d] += dy(t, d) * (x(t, d) * r);
        dot += (dy(t, d) * gain[d]) * x(t, d);
      }
      const Real along = (dot / static_cast<Real>(x.cols())) * (r * r);
      for (Eigen::Index d = 0; d < x.cols(); ++d) {
        dx(t, d) = r * (dy(t, d) * gain[d] - x(t, d) * along);
      }
    }
    return dx;
  }
};

}  // namespace mxo::tools
