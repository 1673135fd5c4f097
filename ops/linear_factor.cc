// Operands of a product, scaled as a recipe says.
#include "ops/linear_factor.h"

#include "ops/elementwise.h"
#include "ops/quantize.h"

namespace mxo {
OwnedScaledTensor quantized(Backend& backend, const Operand& x, const Operand& group_ends,
                            Dtype format, Dtype scale, const BlockExtents& block,
                            const ScaleRule& rule) {
  const auto shape = shape_of(x);
  std::vector<Index> scales = shape_of_scales(shape, block);
  if (group_ends.given()) {
    scales = shape_of_scales(shape, block,
                             most_row_blocks(backend, group_ends, block.rows, x.extent[0]));
  }
  OwnedScaledTensor q(backend, format, shape, scale, scales, block);
  quantize(backend, {x, group_ends, q.result(), rule});
  return q;
}

OwnedScaledTensor in_bf16(Backend& backend, const Operand& x) {
  if (x.dtype == Dtype::bf16) return OwnedScaledTensor::borrowed({x, {}, {}});
  BackendTensor rounded(backend, Dtype::bf16, x.extent, x.rank);
  cast(backend, {x, rounded.result()});
  return OwnedScaledTensor(std::move(rounded));
}

OwnedScaledTensor scaled_along_columns(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                       const Operand& x, LinearSide side) {
  if (!recipe.scaled()) return in_bf16(backend, x);
  const bool weight = side == LinearSide::weight;
  return quantized(backend, x, {}, format, recipe.scale, weight ? recipe.weight : recipe.tokens,
                   weight ? recipe.rule_of_weight() : recipe.rule);
}

OwnedScaledTensor scaled_along_rows_transposed(Backend& backend, const LinearRecipe& recipe,
                                               Dtype format, const Operand& w) {
  // Scaling the columns of the transposed view writes codes row-major [E, K, N].
  return scaled_along_columns(backend, recipe, format, transposed(w), LinearSide::weight);
}

OwnedScaledTensor scaled_along_tokens(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                      const Operand& x, const Operand& group_ends) {
  if (!recipe.scaled()) return in_bf16(backend, x);
  // Groups end at multiples of a block of e8m0 scales: there blocks start again by themselves.
  return quantized(backend, x, recipe.mx() ? Operand{} : group_ends, format, recipe.scale,
                   {recipe.tokens.columns, recipe.tokens.rows}, recipe.rule);
}

}  // namespace mxo
