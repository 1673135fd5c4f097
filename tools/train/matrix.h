// Matrices of the transformer and their product, of floats and, for tests against differences, of
// doubles.
#pragma once

#include <vector>

#include <Eigen/Core>

#include "tools/train/gemm.h"

namespace mxo::tools {

template <typename Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline FloatView view_of(const Matrix<float>& m) {
  return {m.data(), m.rows(), m.cols(), m.cols()};
}

inline float* row_of(Matrix<float>& m, Index row) { return m.data() + row * m.cols(); }
inline const float* row_of(const Matrix<float>& m, Index row) { return m.data() + row * m.cols(); }

/// A matrix of doubles anywhere in memory, and the same product by a plain loop.
struct DoubleView {
  const double* data;
  Index rows;
  Index columns;
  Index row_stride;
  Index column_stride = 1;

  DoubleView transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};
inline void multiply(const DoubleView& a, const DoubleView& b, double* c, Index stride,
                     bool add = false) {
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.columns; ++j) {
      double sum = add ? c[i * stride + j] : 0.0;
      for (Index k = 0; k < a.columns; ++k) {
        sum += a.data[i * a.row_stride + k * a.column_stride] *
               b.data[k * b.row_stride + j * b.column_stride];
      }
      c[i * stride + j] = sum;
    }
  }
}

template <typename Real>
struct ViewOf {
  using type = FloatView;
};
template <>
struct ViewOf<double> {
  using type = DoubleView;
};
template <typename Real>
using View = typename ViewOf<Real>::type;

}  // namespace mxo::tools
