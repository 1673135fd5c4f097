// The `--set` keys that say how scales are made: block, scale, rule, and the rule's constants.
#pragma once

#include "ops/catalogue/staging.h"
#include "ops/parameters.h"
#include "ops/quantize.h"

namespace mxo {

/// "1x32", "128x128", "1xK", "Rx1", "RxK".  Throws Error(argument).
BlockExtents block_named(std::string_view op, std::string_view text,
                         std::string_view key = "block");

/// The scale parameters of a call.
struct ScaleChoice {
  BlockExtents block;
  Dtype scale = Dtype::e8m0;
  ScaleRule rule;
};

/// Reads block, scale, rule, scale_mode, power_of_2, epsilon and scale_max.  Where no block is
/// given, the first one of the rule, 1x32 where it has any; where no type of scale is, e8m0 for
/// blocks of 32 elements and f32 for others, or the one that the rule has. Names of rules are read
/// in any case, and as people spell them ("transformer_engine"). Throws Error(argument): an unknown
/// rule, with the nearest; a rule without that type of scale, block, format or power of two; a
/// constant that the type of scale does not have.
ScaleChoice scale_choice(std::string_view op, const Parameters& set);

/// The name of a rule as rows have it.  Throws Error(argument) with what to type instead.
std::string_view rule_named(std::string_view op, std::string_view typed);

/// The row of a rule for e8m0 scales of 1x32 blocks, or f32 scales of 1x128 blocks.
const ScaleRuleRow& scale_rule(std::string_view op, std::string_view name, Dtype scale,
                               const BlockExtents& block);

ScaleMode scale_mode_of(const Parameters& set, ScaleMode fallback = ScaleMode::rceil);

/// The rounding of elements that a call names, or the rule's own.  Throws Error(argument).
Rounding rounding_of(std::string_view op, const Parameters& set, Rounding fallback);

/// The overflow that the call names, or `fallback`.
Overflow overflow_of(std::string_view op, const Parameters& set, Overflow fallback);

/// Rows of scales of blocks of `height` rows, from ends that the host can read.  Ends that are out
/// of order count for nothing here: the operator's own check names them.
Index row_blocks_of(const Operand& ends, Index height, Index rows);

/// Outputs `codes` and `scales` for x of `shape`, transposed where the call says so.
ScaledResult scaled_outputs(std::string_view op, Staging& stage, const Parameters& set,
                            const std::vector<Index>& shape, const ScaleChoice& choice);

/// "torchao|te|...": every name of a rule.
std::string_view rule_names();

inline constexpr ParameterSpec kBlockParameter{"block", "1x32",
                                               "rows x columns that share a scale: RxC, 1xK a row, "
                                               "Rx1 a column, RxK all; default: the rule's first"};
inline constexpr ParameterSpec kScaleParameter{
    "scale", "", "type of scales, e8m0 or f32; default: e8m0 for blocks of 32 elements, else f32"};
inline constexpr ParameterSpec kRuleParameter{"rule", "torchao", "a row of `mxo list rules`"};
inline constexpr ParameterSpec kModeParameter{"scale_mode", "rceil|floor|ceil|even",
                                              "e8m0 scales: how amax becomes a power of two"};
inline constexpr ParameterSpec kPowerParameter{"power_of_2", "",
                                               "f32 scales: none, down or up; default: the rule's"};
inline constexpr ParameterSpec kRoundingParameter{
    "rounding", "",
    "rounding of elements: even, ties_away, ties_zero, zero, away, down, up or odd; default: the "
    "rule's"};
inline constexpr ParameterSpec kOverflowParameter{
    "overflow", "",
    "elements beyond the largest value: saturate or nonfinite; default: the rule's. torch's casts "
    "to e4m3 are nonfinite up to 2.11, which rules in torch follow, and saturate since"};
inline constexpr ParameterSpec kEpsilonParameter{"epsilon", "",
                                                 "f32 scales: floor of amax; default: the rule's"};
inline constexpr ParameterSpec kScaleMaxParameter{"scale_max", "",
                                                  "f32 scales: bound of amax; default: the rule's"};

}  // namespace mxo
