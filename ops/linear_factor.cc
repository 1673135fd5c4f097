// Which blocks and which rule each scaling takes along each axis.
#include "ops/linear_factor.h"

#include "ops/elementwise.h"
#include "ops/quantize.h"

namespace mxo {
namespace {

OwnedScaledTensor mx(Backend& backend, const LinearRecipe& recipe, Dtype format, const Operand& x,
                     const BlockExtents& block) {
  return quantized(backend, x, {}, format, Dtype::e8m0, block, mx_rule(recipe.mode));
}

}  // namespace

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
                                       const Operand& x, FactorRole role) {
  switch (recipe.scaling) {
    case Scaling::none: return in_bf16(backend, x);
    case Scaling::rowwise:
      return quantized(backend, x, {}, format, Dtype::f32, kWholeRow, f32_rule(kTorchaoRowwise));
    case Scaling::blockwise:
      return quantized(backend, x, {}, format, Dtype::f32,
                       role == FactorRole::weight ? kSquareBlock : kRowBlock,
                       f32_rule(kTorchaoBlockwise));
    case Scaling::mx: break;
  }
  return mx(backend, recipe, format, x, kMxColumns);
}

OwnedScaledTensor scaled_along_rows_transposed(Backend& backend, const LinearRecipe& recipe,
                                               Dtype format, const Operand& w) {
  // Scaling the columns of the transposed view writes codes row-major [E, K, N].
  return scaled_along_columns(backend, recipe, format, transposed(w), FactorRole::weight);
}

OwnedScaledTensor scaled_along_tokens(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                      const Operand& x, const Operand& group_ends) {
  if (recipe.scaling == Scaling::none) return in_bf16(backend, x);
  if (recipe.scaling == Scaling::mx) return mx(backend, recipe, format, x, kMxRows);
  if (recipe.scaling == Scaling::rowwise) {
    return quantized(backend, x, group_ends, format, Dtype::f32, kWholeColumn,
                     f32_rule(kTorchaoRowwise));
  }
  return quantized(backend, x, group_ends, format, Dtype::f32, kColumnBlock,
                   f32_rule(kTorchaoBlockwise));
}

}  // namespace mxo
