// A linear layer of the transformer over the tokens of a rank.
#pragma once

#include <optional>

#include "tools/train/parameters.h"
#include "tools/train/rank.h"

namespace mxo::tools {

/// y = x w^T, w [N, K] the parameter `name`.  In f32 by multiply(); or, as a grouped_linear of one
/// group, x, w and y rounded to bf16, in a recipe.
class Linear {
 public:
  /// `call` as of linears_call.
  Linear(const Rank& rank, std::string name, std::optional<GroupedLinear> call)
      : rank_(rank), name_(std::move(name)), recipe_(std::move(call)) {}

  Matrix<float> forward(Matrix<float> x, Parameters& parameters);
  /// Returns dx and sets the gradient of w: its rows are cut among the ranks, and each is a sum
  /// over the tokens of all of them.  Collective.
  Matrix<float> backward(const Matrix<float>& dy, Parameters& parameters);

 private:
  Matrix<float> forward_in_recipe(const Parameter& w);
  Matrix<float> backward_in_recipe(const Matrix<float>& dy);
  void weight_gradient(const Matrix<float>& dy, const Matrix<float>& x, Index begin, Index end,
                       Parameter& w) const;
  GroupedLinear call(const Operand& x, const Operand& w, const Operand& ends) const;

  const Rank& rank_;
  std::string name_;
  std::optional<GroupedLinear> recipe_;  ///< all of a call that no pass changes; none: f32
  Matrix<float> x_;
  BackendTensor x_narrow_, w_narrow_;  ///< operands of the saved call
  MirroredTensor ends_;
  SavedLinear saved_;
};

}  // namespace mxo::tools
