// Which quantiser each scaling takes along each axis.
#include "ops/linear_factor.h"

#include "ops/elementwise.h"
#include "ops/quantize.h"
#include "ops/quantize_f32_scales.h"

namespace mxo {
namespace {

BackendTensor like(Backend& backend, Dtype dtype, const Operand& shape) {
  return BackendTensor(backend, dtype, shape.extent, shape.rank);
}

/// Codes of the shape of `shape`, scales to follow.
LinearFactor coded(Backend& backend, Dtype format, const Operand& shape) {
  LinearFactor factor;
  factor.owned_codes = like(backend, format, shape);
  return factor;
}

/// `shape` with another extent for an axis counted from the end.
Operand with_extent(Operand shape, int from_end, Index extent) {
  shape.extent[shape.rank - from_end] = extent;
  return shape;
}

LinearFactor finished(LinearFactor factor) {
  factor.codes = factor.owned_codes.operand();
  factor.scales = factor.owned_scales.operand();
  return factor;
}

LinearFactor mx(Backend& backend, const LinearRecipe& recipe, Dtype format, const Operand& x,
                BlockAxis axis) {
  LinearFactor factor = coded(backend, format, x);
  const int from_end = axis == BlockAxis::columns ? 1 : 2;
  const Index blocks = x.extent[x.rank - from_end] / kMxBlock;
  factor.owned_scales = like(backend, Dtype::e8m0, with_extent(x, from_end, blocks));
  Quantize op;
  op.x = x;
  op.codes = factor.owned_codes.result();
  op.scales = factor.owned_scales.result();
  op.mode = recipe.mode;
  op.axis = axis;
  quantize(backend, op);
  return finished(std::move(factor));
}

LinearFactor rowwise(Backend& backend, Dtype format, const Operand& x) {
  LinearFactor factor = coded(backend, format, x);
  factor.owned_scales = BackendTensor(backend, Dtype::f32, x.extent, x.rank - 1);
  QuantizeRowwise op;
  op.x = x;
  op.codes = factor.owned_codes.result();
  op.scales = factor.owned_scales.result();
  quantize_rowwise(backend, op);
  return finished(std::move(factor));
}

LinearFactor blockwise(Backend& backend, Dtype format, const Operand& x, FactorRole role) {
  LinearFactor factor = coded(backend, format, x);
  const bool square = role == FactorRole::weight;
  const Index k = ceil_div(x.extent[x.rank - 1], kScaledBlock);
  Operand scales = with_extent(x, 1, k);
  if (square) scales = with_extent(scales, 2, ceil_div(x.extent[x.rank - 2], kScaledBlock));
  factor.owned_scales = like(backend, Dtype::f32, scales);
  QuantizeBlockwise op;
  op.x = x;
  op.codes = factor.owned_codes.result();
  op.scales = factor.owned_scales.result();
  op.block = square ? BlockShape::square_128x128 : BlockShape::row_1x128;
  quantize_blockwise(backend, op);
  return finished(std::move(factor));
}

}  // namespace

LinearFactor in_bf16(Backend& backend, const Operand& x) {
  LinearFactor factor;
  factor.codes = x;
  if (x.dtype == Dtype::bf16) return factor;
  factor.owned_codes = like(backend, Dtype::bf16, x);
  cast(backend, {x, factor.owned_codes.result()});
  factor.codes = factor.owned_codes.operand();
  return factor;
}

LinearFactor scaled_along_columns(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                  const Operand& x, FactorRole role) {
  switch (recipe.scaling) {
    case Scaling::none: return in_bf16(backend, x);
    case Scaling::rowwise: return rowwise(backend, format, x);
    case Scaling::blockwise: return blockwise(backend, format, x, role);
    case Scaling::mx: break;
  }
  return mx(backend, recipe, format, x, BlockAxis::columns);
}

LinearFactor scaled_along_rows_transposed(Backend& backend, const LinearRecipe& recipe,
                                          Dtype format, const Operand& w) {
  // Scaling the columns of the transposed view writes codes row-major [E, K, N].
  return scaled_along_columns(backend, recipe, format, transposed(w), FactorRole::weight);
}

LinearFactor scaled_along_tokens(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                 const Operand& x, const Operand& group_ends) {
  if (recipe.scaling == Scaling::none) return in_bf16(backend, x);
  if (recipe.scaling == Scaling::mx) return mx(backend, recipe, format, x, BlockAxis::rows);
  LinearFactor factor = coded(backend, format, x);
  const Index groups = group_ends.extent[0];
  if (recipe.scaling == Scaling::rowwise) {
    factor.owned_scales = like(backend, Dtype::f32, with_extent(x, 2, groups));
    QuantizeRowwise op;
    op.x = x;
    op.group_ends = group_ends;
    op.codes = factor.owned_codes.result();
    op.scales = factor.owned_scales.result();
    op.axis = BlockAxis::rows;
    quantize_rowwise(backend, op);
  } else {
    // A device keeps its ends to itself; there the scales have room for any.
    const Index blocks = backend.reads_host_memory() ? blocks_of_groups(group_ends)
                                                     : x.extent[0] / kScaledBlock + groups;
    factor.owned_scales = like(backend, Dtype::f32, with_extent(x, 2, blocks));
    QuantizeBlockwise op;
    op.x = x;
    op.group_ends = group_ends;
    op.codes = factor.owned_codes.result();
    op.scales = factor.owned_scales.result();
    op.block = BlockShape::column_128x1;
    quantize_blockwise(backend, op);
  }
  return finished(std::move(factor));
}

}  // namespace mxo
