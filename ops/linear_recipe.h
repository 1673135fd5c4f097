// The named ways to train a grouped linear layer in low precision.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <optional>
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
  std::optional<ScaleRule> weight_rule = {};  ///< of w, where it is another
  WgradPrecision wgrad = WgradPrecision::quantized;
  Index alignment = 16;  ///< of padded groups, unless the call says otherwise

  constexpr bool scaled() const { return scale != Dtype::bf16; }
  constexpr bool mx() const { return scale == Dtype::e8m0; }
  constexpr const ScaleRule& rule_of_weight() const { return weight_rule ? *weight_rule : rule; }
};

/// f32 scales raised to powers of two, as the row of `rule` raises them.
constexpr F32ScaleRule raised(F32ScaleRule rule, PowerOfTwo how) {
  rule.power_of_2 = how;
  return rule;
}

// pytorch/ao 36027d8: moe_training config.py, fp8_grouped_mm.py and blockwise_fp8.
// vLLM 055e47c, DeepGemmExperts: rules vllm and deepgemm; "up" is what it asks for on Hopper unless
// VLLM_USE_DEEP_GEMM_E8M0 is 0.
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
    {.name = "vllm",
     .scale = Dtype::f32,
     .tokens = kRowBlock,
     .weight = kSquareBlock,
     .rule = f32_rule(kNativeGroup, kTorchClamp224),
     .weight_rule = f32_rule(kDeepGemm, kTorchCast),
     .wgrad = WgradPrecision::high,
     .alignment = 128},
    {.name = "vllm_up",
     .scale = Dtype::f32,
     .tokens = kRowBlock,
     .weight = kSquareBlock,
     .rule = f32_rule(raised(kNativeGroup, PowerOfTwo::up_log2), kTorchClamp224),
     .weight_rule = f32_rule(raised(kDeepGemm, PowerOfTwo::up_clamped), kTorchCast),
     .wgrad = WgradPrecision::high,
     .alignment = 128},
    {.name = "bf16", .scale = Dtype::bf16, .wgrad = WgradPrecision::high},
};

/// Throws Error(argument) naming the recipes there are.
const LinearRecipe& linear_recipe_named(std::string_view name);

}  // namespace mxo
