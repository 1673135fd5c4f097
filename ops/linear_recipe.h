// The named ways to train a grouped linear layer in low precision.
#pragma once

#include <string_view>

#include "formats/mx_scale.h"
#include "ops/grouped_matmul.h"

namespace mxo {

/// What the weight gradient is computed from.
enum class WgradPrecision : std::uint8_t {
  quantized,  ///< dy and x quantised along the tokens
  high,       ///< dy and x in bf16
};

/// How the three products of a layer are scaled.  Equal values mean equal bits.
struct LinearRecipe {
  std::string_view name;
  Scaling scaling = Scaling::mx;
  ScaleMode mode = ScaleMode::rceil;  ///< of mx scales
  WgradPrecision wgrad = WgradPrecision::quantized;
  Index alignment = 16;  ///< of padded groups, unless the call says otherwise
};

// pytorch/ao 36027d8: moe_training config.py, fp8_grouped_mm.py and blockwise_fp8.
inline constexpr LinearRecipe kLinearRecipes[] = {
    {"mxfp8_rceil", Scaling::mx, ScaleMode::rceil, WgradPrecision::quantized, 32},
    {"mxfp8_floor", Scaling::mx, ScaleMode::floor, WgradPrecision::quantized, 32},
    {"mxfp8_rceil_wgrad_with_hp", Scaling::mx, ScaleMode::rceil, WgradPrecision::high, 32},
    {"mxfp8_floor_wgrad_with_hp", Scaling::mx, ScaleMode::floor, WgradPrecision::high, 32},
    {"fp8_rowwise", Scaling::rowwise, ScaleMode::rceil, WgradPrecision::quantized, 16},
    {"fp8_blockwise", Scaling::blockwise, ScaleMode::rceil, WgradPrecision::quantized, 128},
    {"bf16", Scaling::none, ScaleMode::rceil, WgradPrecision::high, 16},
};

/// Throws Error(argument) naming the recipes there are.
const LinearRecipe& linear_recipe_named(std::string_view name);

}  // namespace mxo
