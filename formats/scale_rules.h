// The rules by which stacks make scales and codes, as rows of data.
#pragma once

#include <string_view>

#include "formats/scaled_block.h"

namespace mxo {

/// How scales come from the largest magnitudes of blocks.  `mode` and `e8m0` say it for e8m0
/// scales (formats/mx_scale.h), `f32` for f32 scales (formats/scaled_block.h).
struct ScaleRule {
  ScaleMode mode = ScaleMode::rceil;
  ScaleProfile e8m0 = kTorchao;
  F32ScaleRule f32 = {};
  friend constexpr bool operator==(const ScaleRule&, const ScaleRule&) = default;
};

/// A rule for e8m0 scales.
MXO_HD constexpr ScaleRule mx_rule(ScaleMode mode, const ScaleProfile& profile = kTorchao) {
  return {mode, profile, {}};
}
/// A rule for f32 scales.
MXO_HD constexpr ScaleRule f32_rule(const F32ScaleRule& rule) {
  return {ScaleMode::rceil, kTorchao, rule};
}

/// torchao block-wise training.  Its Triton kernels raise amax to epsilon before they widen it:
/// another last bit where amax is below 1e-12.
inline constexpr F32ScaleRule kTorchaoBlockwise{};
/// torchao row-wise training.
inline constexpr F32ScaleRule kTorchaoRowwise{.power_of_2 = PowerOfTwo::down};
/// TransformerEngine Float8BlockScaling: power of two, epsilon 0; NaN does not reach amax, and Inf
/// and zero have scale 1.
inline constexpr F32ScaleRule kTeBlockwise{.quotient = Quotient::max_over_amax,
                                           .power_of_2 = PowerOfTwo::down,
                                           .epsilon = 0.0,
                                           .floor = AmaxFloor::in_f32,
                                           .nan = NanRule::ignore,
                                           .zero = OddAmax::one,
                                           .infinity = OddAmax::one,
                                           .too_large = TooLarge::input_max};
/// FP8-Flow-MoE: TransformerEngine's kernel with amax raised to 1e-10.
inline constexpr F32ScaleRule kFlowBlockwise{.quotient = Quotient::max_over_amax,
                                             .power_of_2 = PowerOfTwo::down,
                                             .epsilon = 1e-10,
                                             .floor = AmaxFloor::in_f32,
                                             .nan = NanRule::ignore,
                                             .zero = OddAmax::one,
                                             .infinity = OddAmax::one,
                                             .too_large = TooLarge::input_max};

/// How a row is known.
enum class RuleEvidence : std::uint8_t {
  captured,  ///< outputs of the stack are repeated bit for bit
  read,      ///< its source only
  defined,   ///< by us
};

enum class ScaleType : std::uint8_t { e8m0, f32 };

/// What one stack does for one type of scale, and for which blocks.
struct ScaleRuleRow {
  std::string_view name;
  ScaleType scale;
  std::string_view blocks;  ///< "1x128|128x128"; empty: any
  ScaleRule rule;
  RuleEvidence evidence;
  std::string_view source;
  PowerOfTwo up = PowerOfTwo::up;  ///< how its scales are raised to a power of two, where asked
};

/// Every row; of those with one name and one type of scale, the first that has the block counts.
inline constexpr ScaleRuleRow kScaleRules[] = {
    {"torchao", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil), RuleEvidence::captured,
     "pytorch/ao 36027d8, to_mx"},
    {"torchao", ScaleType::f32, "1xK|Rx1", f32_rule(kTorchaoRowwise), RuleEvidence::read,
     "pytorch/ao 36027d8, fp8_grouped_mm.py"},
    {"torchao", ScaleType::f32, "", f32_rule(kTorchaoBlockwise), RuleEvidence::read,
     "pytorch/ao 36027d8, blockwise_fp8_training"},
    {"te", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil, kTransformerEngine), RuleEvidence::read,
     "TransformerEngine d0067d0, float_to_e8m0"},
    {"te", ScaleType::f32, "1x128|128x1|128x128", f32_rule(kTeBlockwise), RuleEvidence::read,
     "TransformerEngine d0067d0, Float8BlockScaling"},
    {"ocp", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil, kOcp), RuleEvidence::defined,
     "OCP MX v1.0, 6.3, exact quotients"},
    {"torchao_cuda", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil, kTorchaoCuda),
     RuleEvidence::read, "pytorch/ao 36027d8, CUDA and CuTeDSL kernels"},
    {"flow", ScaleType::f32, "1x128|128x1|128x128", f32_rule(kFlowBlockwise), RuleEvidence::read,
     "TransformerEngine-FP8FlowMoe 4c097bf3"},
};

static_assert(f32_scale<kE4M3>(0.0f, kTorchaoRowwise, 1.0f).factor == 0x1p48f);
static_assert(f32_scale<kE4M3>(0.0f, kTeBlockwise, 1.0f).stored == 1.0f);
static_assert(f32_scale<kE4M3>(449.0f, kTeBlockwise, 1.0f).factor == 0.5f);

}  // namespace mxo
