// The named ways to train a grouped linear layer in low precision.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string_view>

#include "formats/scale_rules.h"
#include "ops/scaled_tensor.h"

namespace mxo {

/// What the weight gradient is computed from.
enum class WgradPrecision : std::uint8_t {
  quantized,  ///< dy and x quantised along the tokens
  high,       ///< dy and x in bf16
};

/// How the three products of a layer are scaled.  Equal values mean equal bits.
struct LinearRecipe {
  std::string_view name;
  Dtype scale = Dtype::e8m0;         ///< type of scales; bf16: operands stay bf16, without scales
  BlockExtents tokens = kMxColumns;  ///< blocks of x and dy, the contracted axis last
  BlockExtents weight = kMxColumns;  ///< blocks of w, the same
  ScaleRule rule = {};
  WgradPrecision wgrad = WgradPrecision::quantized;
  Index alignment = 16;  ///< of padded groups, unless the call says otherwise

  constexpr bool scaled() const { return scale != Dtype::bf16; }
  constexpr bool mx() const { return scale == Dtype::e8m0; }
};

// pytorch/ao 36027d8: moe_training config.py, fp8_grouped_mm.py and blockwise_fp8.
inline constexpr LinearRecipe kLinearRecipes[] = {
    {.name = "mxfp8_rceil", .rule = mx_rule(ScaleMode::rceil), .alignment = 32},
    {.name = "mxfp8_floor", .rule = mx_rule(ScaleMode::floor), .alignment = 32},
    {.name = "mxfp8_rceil_wgrad_with_hp",
     .rule = mx_rule(ScaleMode::rceil),
     .wgrad = WgradPrecision::high,
     .alignment = 32},
    {.name = "mxfp8_floor_wgrad_with_hp",
     .rule = mx_rule(ScaleMode::floor),
     .wgrad = WgradPrecision::high,
     .alignment = 32},
    {.name = "fp8_rowwise",
     .scale = Dtype::f32,
     .tokens = kWholeRow,
     .weight = kWholeRow,
     .rule = f32_rule(kTorchaoRowwise)},
    {.name = "fp8_blockwise",
     .scale = Dtype::f32,
     .tokens = kRowBlock,
     .weight = kSquareBlock,
     .rule = f32_rule(kTorchaoBlockwise),
     .alignment = 128},
    {.name = "bf16", .scale = Dtype::bf16, .wgrad = WgradPrecision::high},
};

/// Throws Error(argument) naming the recipes there are.
const LinearRecipe& linear_recipe_named(std::string_view name);

}  // namespace mxo
