// Matrices of the transformer, and the one product of them, whose bits are defined here.
#pragma once

#include <Eigen/Core>

namespace mxo::tools {

template <typename Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename Real>
using Row = Eigen::Matrix<Real, 1, Eigen::Dynamic>;
template <typename Real>
using MatrixMap = Eigen::Map<Matrix<Real>>;
template <typename Real>
using ConstMatrixMap = Eigen::Map<const Matrix<Real>>;

/// Rows first, first + 1, ... first + Rows - 1 of a times one panel of b.  Eigen works on kPanel
/// columns at once, element by element: the width of its vectors cannot be seen in the bits.
inline constexpr Eigen::Index kPanel = 8;
template <int Rows, typename Real, typename A>
void multiply_panel(const A& a, Eigen::Index first, const Matrix<Real>& panel, Eigen::Index column,
                    Matrix<Real>& c) {
  Eigen::Array<Real, 1, kPanel> sums[Rows];
  for (auto& sum : sums) sum.setZero();
  for (Eigen::Index k = 0; k < panel.rows(); ++k) {
    const auto b = panel.row(k).template head<kPanel>().array();
    for (int r = 0; r < Rows; ++r) sums[r] += a(first + r, k) * b;
  }
  const Eigen::Index columns = std::min(kPanel, c.cols() - column);
  for (int r = 0; r < Rows; ++r) {
    c.row(first + r).segment(column, columns) = sums[r].head(columns).matrix();
  }
}

/// c(i, j) = sum over k ascending of fl(a(i, k) * b(k, j)), from +0, every product and every
/// addition rounded.  Eigen's own product is not used: it sums in an order that depends on the
/// instruction set it was compiled for and on the sizes of the caches it finds.
template <typename DerivedA, typename DerivedB>
Matrix<typename DerivedA::Scalar> multiply(const Eigen::MatrixBase<DerivedA>& a,
                                           const Eigen::MatrixBase<DerivedB>& b) {
  using Real = typename DerivedA::Scalar;
  constexpr int kRows = 4;
  const Eigen::Ref<const Matrix<Real>, 0, Eigen::OuterStride<>> rows(a.derived());
  Matrix<Real> c(a.rows(), b.cols());
  Matrix<Real> panel = Matrix<Real>::Zero(b.rows(), kPanel);
  for (Eigen::Index j = 0; j < b.cols(); j += kPanel) {
    const Eigen::Index columns = std::min(kPanel, b.cols() - j);
    panel.leftCols(columns) = b.middleCols(j, columns);
    Eigen::Index i = 0;
    for (; i + kRows <= a.rows(); i += kRows) multiply_panel<kRows>(rows, i, panel, j, c);
    for (; i < a.rows(); ++i) multiply_panel<1>(rows, i, panel, j, c);
  }
  return c;
}

}  // namespace mxo::tools
