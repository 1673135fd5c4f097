// The steps that the forward and the backward pass of a layer share.
#pragma once

#include "ops/moe_layer.h"

namespace mxo {

/// A zeroed tensor: rows that no expert owns stay zero.
BackendTensor zeros(Backend& backend, Dtype dtype, std::initializer_list<Index> shape);
/// bf16 [plan.rows, columns], of which rows beyond the last expert's are zeros: a product writes
/// the others.
BackendTensor expert_rows(Backend& backend, const ExpertPlan& plan, Index columns);

/// [N, K] as [1, N, K].
Operand as_one_group(const Operand& w);
Result as_one_group(const Result& w);
/// Ends of one group of `rows` rows.
BackendTensor one_group(Backend& backend, Index rows);

/// Rows [first, first + count) of a matrix.
template <typename Void>
AnyView<Void> rows_of(AnyView<Void> matrix, Index first, Index count) {
  matrix.data = static_cast<std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>*>(
                    matrix.data) +
                static_cast<std::size_t>(first * matrix.stride[0]) * size_of(matrix.dtype);
  matrix.extent[0] = count;
  return matrix;
}

/// What tokens are sent as, and what gradients of combine are.
Wire wire_of(const MoeLayer& op, const LinearRecipe& recipe);
Wire gradient_wire_of(const MoeLayer& op, const LinearRecipe& recipe);

/// The experts' first and second product; y not yet set.
GroupedLinear first_product(const SavedMoeLayer& saved);
GroupedLinear second_product(const SavedMoeLayer& saved, const Operand& act);

/// Whether the weights multiply the sums of a product.
bool weighs_product(const MoeLayer& op);

/// y = product.  Where `weighed` is where the weights multiply: y = round(fl(sum * weight)) of sums
/// in f32, rows of padding zero.  Where they multiply either product, biases are added in f32.
void run_product(Backend& backend, const SavedMoeLayer& saved, GroupedLinear product,
                 MoeScores weighed, const Result& y);

/// Whether the second product's bias is added times the weights of rows, and not by the product.
bool weighs_bias(const MoeLayer& op);
/// y[r] = round(f32(y[r]) + fl(bias[expert of r] * weight of r)), rows of padding as they are.
void add_weighted_bias(Backend& backend, const SavedMoeLayer& saved, const Result& y);
/// The gradients of that.
struct BiasGradients {
  BackendTensor of_rows;     ///< f32 [rows, D], fl(dy * weight), to be summed by expert
  BackendTensor of_weights;  ///< f32 [rows, 1], sum over d ascending of fl(dy * bias)
};
BiasGradients weighted_bias_gradients(Backend& backend, const SavedMoeLayer& saved,
                                      const Operand& dy);

/// h and act from the rows that came.
void activate(Backend& backend, const SavedMoeLayer& saved, BackendTensor& h, BackendTensor& act);

/// The shared expert on any tokens, as far as its activations; `second` waits for its y.
struct SharedExpert {
  BackendTensor ends;
  BackendTensor h;
  BackendTensor act;
  GroupedLinear first;
  GroupedLinear second;
};
SharedExpert open_shared(Backend& backend, const MoeLayer& op, const LinearRecipe& recipe,
                         const Operand& x);

/// out[t] = round of the sum, in f32 and in order, of row t of each of `count` matrices [T, D] that
/// lie one behind the other.
void add_matrices(Backend& backend, const Operand& stacked, Index count, const Result& out);

/// Rows of all ranks, in rank order, and where this rank's begin.
struct Gathered {
  BackendTensor rows;
  Index first = 0;
};
Gathered gather_rows(Backend& backend, Communicator& communicator, const Operand& mine);

/// As many rows as `to` has, from row `first` of `from` on.
void take_rows(Backend& backend, const Operand& from, Index first, const Result& to);

}  // namespace mxo
