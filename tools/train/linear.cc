// Products of a linear layer, in f32 or in a recipe.
#include "tools/train/linear.h"

namespace mxo::tools {
namespace {

/// group_ends of one group of `rows`.
MirroredTensor one_group(Backend& backend, Index rows) {
  Tensor ends(Dtype::i32, {1});
  *ends.as<std::int32_t>() = static_cast<std::int32_t>(rows);
  return {backend, std::move(ends)};
}

FloatView view_of(const Parameter& w) {
  return {w.data(), w.value.extent(0), w.value.extent(1), w.value.extent(1)};
}

}  // namespace

GroupedLinear Linear::call(const Operand& x, const Operand& w, const Operand& ends) const {
  GroupedLinear op = *recipe_;
  op.x = x;
  op.w = w;
  op.group_ends = ends;
  return op;
}

Matrix<float> Linear::forward(Matrix<float> x, Parameters& parameters) {
  const Parameter& w = parameters[name_];
  x_ = std::move(x);
  if (recipe_) return forward_in_recipe(w);
  Matrix<float> y(x_.rows(), w.value.extent(0));
  multiply(tools::view_of(x_), view_of(w).transposed(), y.data(), y.cols(), false, rank_.threads);
  return y;
}

Matrix<float> Linear::forward_in_recipe(const Parameter& w) {
  x_narrow_ = rank_.rounded(x_.data(), {x_.rows(), x_.cols()});
  w_narrow_ = rank_.rounded(w.data(), {1, w.value.extent(0), w.value.extent(1)});
  ends_ = one_group(rank_.backend, x_.rows());
  BackendTensor y(rank_.backend, Dtype::bf16, {x_.rows(), w.value.extent(0)});
  GroupedLinear op = call(x_narrow_.operand(), w_narrow_.operand(), ends_.operand());
  op.y = y.result();
  saved_ = grouped_linear(rank_.backend, op);
  return rank_.widened(y.operand());
}

Matrix<float> Linear::backward(const Matrix<float>& dy, Parameters& parameters) {
  Parameter& w = parameters[name_];
  Matrix<float> copy_of_dy;
  Matrix<float> copy_of_x;
  const Matrix<float>& all_dy = rank_.rows_of_all(dy, copy_of_dy);
  const Matrix<float>& all_x = rank_.rows_of_all(x_, copy_of_x);
  constexpr Index kRows = 32;  // of a cut: whole blocks of any recipe's
  const Index rows = w.value.extent(0);
  const Index begin = std::min(rows, kRows * rank_.begin_of((rows + kRows - 1) / kRows));
  const Index end = std::min(rows, kRows * rank_.end_of((rows + kRows - 1) / kRows));
  weight_gradient(all_dy, all_x, begin, end, w);
  rank_.share(w.gradient.as<float>(), begin, end, w.value.extent(1));
  if (recipe_) return backward_in_recipe(dy);
  Matrix<float> dx(x_.rows(), x_.cols());
  multiply(tools::view_of(dy), view_of(w), dx.data(), dx.cols(), false, rank_.threads);
  return dx;
}

Matrix<float> Linear::backward_in_recipe(const Matrix<float>& dy) {
  const BackendTensor narrow = rank_.rounded(dy.data(), {dy.rows(), dy.cols()});
  BackendTensor dx(rank_.backend, Dtype::bf16, {x_.rows(), x_.cols()});
  grouped_linear_backward(rank_.backend, saved_, {narrow.operand(), dx.result(), {}, {}});
  return rank_.widened(dx.operand());
}

/// Rows `begin` to `end` of dw = dy^T x.
void Linear::weight_gradient(const Matrix<float>& dy, const Matrix<float>& x, Index begin,
                             Index end, Parameter& w) const {
  if (begin == end) return;
  const Index width = x.cols();
  if (!recipe_) {
    const FloatView part{dy.data() + begin, dy.rows(), end - begin, dy.cols()};
    multiply(part.transposed(), tools::view_of(x), w.gradient.as<float>() + begin * width, width,
             false, rank_.threads);
    return;
  }
  Backend& backend = rank_.backend;
  const Matrix<float> part = dy.middleCols(begin, end - begin);
  const BackendTensor dy_narrow = rank_.rounded(part.data(), {part.rows(), part.cols()});
  const BackendTensor x_narrow = rank_.rounded(x.data(), {x.rows(), x.cols()});
  const BackendTensor w_narrow = rank_.rounded(w.data() + begin * width, {1, end - begin, width});
  const MirroredTensor ends = one_group(backend, x.rows());
  BackendTensor dw(backend, Dtype::f32, {1, end - begin, width});
  const SavedLinear saved =
      grouped_linear(backend, call(x_narrow.operand(), w_narrow.operand(), ends.operand()));
  grouped_linear_backward(backend, saved, {dy_narrow.operand(), {}, dw.result(), {}});
  rank_.fetch(dw, w.gradient.as<float>() + begin * width);
}

}  // namespace mxo::tools
