// A linear layer of many experts, differentiable, from high precision in to high precision out.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "ops/backend_tensor.h"
#include "ops/linear_recipe.h"
#include "ops/sums.h"

namespace mxo {

enum class GroupPadding : std::uint8_t {
  none,      ///< groups as they are; a wgrad quantised in 32-blocks then needs multiples of 32
  alignment  ///< groups padded with zero rows wherever tokens are contracted
};

/// y[t, n] = round(sum over k of q(x)[t, k] * q(w)[g, n, k]) for token t of group g, then
/// y = round(f32(y) + f32(bias)) where there is a bias.  q quantises along the contracted axis and
/// is what the recipe says; bf16 rounds f32 operands to bf16.
///
///   x           [T, K]     bf16 or f32; f32 is quantised as f32.  Or, where the recipe scales
///                          blocks of a row,
///   x_codes     [T, K]     of `format`, and
///   x_scales    [T, K/32] e8m0 or [T, ceil(K/128)] f32: x already quantised along K.  Its
///                          dequantised bf16 values then stand for x in the weight gradient, which
///                          stays in high precision
///   w           [E, N, K]  bf16 or f32
///   group_ends  i32 [E]
///   bias        [N] or [E, N], bf16 or f32, or absent
///   y           [T, N]     bf16 or f32; rows past the last end stay untouched.  Or absent: then
///                          nothing is computed but what the backward pass needs
///
/// Any strides; any extent may be 0.  Errors, before any byte of y is written: Error(shape), also
/// K not a multiple of 32 with the mxfp8 recipes; Error(dtype); Error(argument) for `alignment`;
/// Error(unsupported) if the backend does not honour a sum, or pre-quantised x with another recipe.
/// Source: pytorch/ao 36027d8, mxfp8_grouped_mm.py (emulated), fp8_grouped_mm.py; docs/numerics.md.
struct GroupedLinear {
  Operand x;
  Operand x_codes;
  Operand x_scales;
  Operand w;
  Operand group_ends;
  Operand bias;
  LinearRecipe recipe = kLinearRecipes[0];
  Dtype format = Dtype::e4m3;
  GroupPadding padding = GroupPadding::none;
  Index alignment = 0;              ///< of padded groups; 0 takes the recipe's
  Accumulation sum = kExact;        ///< of the products over K and N
  Accumulation wgrad_sum = kExact;  ///< of the product over tokens, which may be in bf16
  Result y;
};

/// What the backward pass needs of the forward pass.  It refers to the operands of the call, which
/// must outlive it, and owns only what the forward pass had to compute and would need again.
struct SavedLinear {
  GroupedLinear call;
  BackendTensor x_bf16;  ///< where the bf16 recipe rounded f32 operands
  BackendTensor w_bf16;
};

/// Gradients of the call that `saved` came from:
///   dx[t, k] = sum over n of q(dy)[t, n] * q(w)[g, n, k]         quantised along N
///   dw[g, n, k] = sum over tokens t of g of q(dy)[t, n] * q(x)[t, k]   quantised along tokens
///   dbias = column_sum(dy), over all groups for a bias [N], by group for [E, N]
///
///   dy     [T, N]     bf16 or f32
///   dx     [T, K]     bf16 or f32, or absent; rows past the last end stay untouched
///   dw     [E, N, K]  bf16 or f32, or absent; zeros for an empty group
///   dbias  [N] or [E, N], bf16 or f32, or absent
///   main_grad, product   as GroupedMatmulWgrad: dw is then f32
///
/// The blocks of an mxfp8 wgrad start at token 0 of the tensor (padded, if it is), so that every
/// group must start on a multiple of 32.  Errors, before any byte of a result is written: those of
/// GroupedLinear; Error(shape) if N is not a multiple of 32 with the mxfp8 recipes, or results
/// share memory; Error(dtype); Error(unsupported) if the backend does not honour the sum of dw.
/// Source: as GroupedLinear.
struct GroupedLinearBackward {
  Operand dy;
  Result dx;
  Result dw;
  Result dbias;
  Operand main_grad = {};
  Dtype product = Dtype::f32;
};

/// What the products of a recipe, and the weight gradient of a call, are sums over.
OperandKind product_kind(const LinearRecipe& recipe, Dtype format);
OperandKind wgrad_kind(const GroupedLinear& op);

SavedLinear grouped_linear(Backend& backend, const GroupedLinear& op);
void grouped_linear_backward(Backend& backend, const SavedLinear& saved,
                             const GroupedLinearBackward& op);

}  // namespace mxo
