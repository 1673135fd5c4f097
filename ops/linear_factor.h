// One operand of a low-precision product, made from a high-precision tensor.
#pragma once

#include "ops/backend_tensor.h"
#include "ops/linear_recipe.h"

namespace mxo {

/// Codes and scales as GroupedMatmul takes them.  In bf16 there are no scales, and a bf16 tensor
/// is not copied: `codes` may refer to memory of the caller.
struct LinearFactor {
  Operand codes;
  Operand scales;
  BackendTensor owned_codes;
  BackendTensor owned_scales;
};

/// Whether neighbouring rows share scales under Scaling::blockwise.
enum class FactorRole : std::uint8_t {
  tokens,  ///< 1x128 blocks
  weight,  ///< 128x128 blocks
};

/// x [R, K] or [E, N, K], any strides, scaled along its last axis.
LinearFactor scaled_along_columns(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                  const Operand& x, FactorRole role);

/// w [E, N, K] scaled along N and transposed: a factor [E, K, N].
LinearFactor scaled_along_rows_transposed(Backend& backend, const LinearRecipe& recipe,
                                          Dtype format, const Operand& w);

/// x [R, K] scaled along its rows, the tokens, group by group.
LinearFactor scaled_along_tokens(Backend& backend, const LinearRecipe& recipe, Dtype format,
                                 const Operand& x, const Operand& group_ends);

/// x in bf16: itself if it is, else a copy rounded to nearest even.
LinearFactor in_bf16(Backend& backend, const Operand& x);

}  // namespace mxo
