// One operand of a low-precision product, made from a high-precision tensor.
#pragma once

#include "ops/linear_recipe.h"
#include "ops/owned_scaled_tensor.h"
#include "ops/quantize.h"

namespace mxo {

/// Which operand of a product: it has its own blocks, and may have its own rule.
enum class LinearSide : std::uint8_t { tokens, weight };

/// x [R, K] or [E, N, K], any strides, scaled along its last axis as the recipe scales that side.
/// In bf16 there are no scales, and a bf16 tensor is not copied: the result borrows it.
OwnedScaledTensor scaled_along_columns(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                       const Operand& x, LinearSide side);

/// w [E, N, K] scaled along N and transposed: a factor [E, K, N].
OwnedScaledTensor scaled_along_rows_transposed(Backend& backend, const LinearRecipe& recipe,
                                               Dtype format, const Operand& w);

/// x [R, K] scaled along its rows, the tokens, group by group.
OwnedScaledTensor scaled_along_tokens(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                      const Operand& x, const Operand& group_ends);

/// x in bf16: itself if it is, else a copy rounded to nearest even.
OwnedScaledTensor in_bf16(Backend& backend, const Operand& x);

/// x quantised into new memory, row-major.
OwnedScaledTensor quantized(Backend& backend, const Operand& x, const Operand& group_ends,
                            Dtype format, Dtype scale, const BlockExtents& block,
                            const ScaleRule& rule);

}  // namespace mxo
