// The fields of every operator under their names: as views, and in words.
#pragma once

#include <concepts>
#include <functional>
#include <sstream>
#include <utility>

#include "ops/aligned_blocks.h"
#include "ops/approximate.h"
#include "ops/combine_rows.h"
#include "ops/convert.h"
#include "ops/delayed_scale.h"
#include "ops/elementwise.h"
#include "ops/expert_maps.h"
#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"
#include "ops/packed_scales.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/router_gradients.h"
#include "ops/row_maps.h"
#include "ops/scale_layouts.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu_quantize.h"

namespace mxo {

/// Calls fn(name, field) for "first, second, ..." and as many fields.
template <typename Fn, typename... Fields>
void each_named(std::string_view names, const Fn& fn, Fields&... fields) {
  const auto one = [&](auto& field) {
    const std::size_t end = names.find(',');
    fn(std::string(names.substr(0, end)), field);
    names.remove_prefix(end == names.npos ? names.size() : end + 2);
  };
  (one(fields), ...);
}

/// each_field(op, fn) calls fn("x", op.x) and so on, of all fields in their order.
#define MXO_FIELDS(Op, ...)                         \
  template <typename O, typename Fn>                \
  requires std::same_as<std::remove_const_t<O>, Op> \
  void each_field(O& op, const Fn& fn) {            \
    auto& [__VA_ARGS__] = op;                       \
    each_named(#__VA_ARGS__, fn, __VA_ARGS__);      \
  }
MXO_FIELDS(Encode, x, codes, overflow, nan, rounding)
MXO_FIELDS(Decode, codes, x)
MXO_FIELDS(Quantize, x, group_ends, to, rule, given)
MXO_FIELDS(Dequantize, from, group_ends, x)
MXO_FIELDS(DelayedScale, x, history, scale, format, amax, margin, next_history, next_scale)
MXO_FIELDS(SwizzleScales, scales, group_ends, blocked, layout)
MXO_FIELDS(UnswizzleScales, blocked, group_ends, scales, layout)
MXO_FIELDS(PackScales, scales, packed, layout)
MXO_FIELDS(UnpackScales, packed, scales, layout)
MXO_FIELDS(PadGroups, x, group_ends, y, padded_starts, padded_ends, alignment)
MXO_FIELDS(UnpadGroups, y, group_ends, padded_starts, x)
MXO_FIELDS(PermuteIndices, tokens_per_expert, indices, sizes, ends, experts, ranks, alignment)
MXO_FIELDS(Permute, x, indices, y)
MXO_FIELDS(Unpermute, y, indices, x)
MXO_FIELDS(RowsToGroups, m_indices, group_ends)
MXO_FIELDS(GroupsToRows, group_ends, counts, m_indices)
MXO_FIELDS(GroupsToMasked, x, group_ends, y, counts)
MXO_FIELDS(MaskedToGroups, y, counts, x, group_ends)
MXO_FIELDS(MapExperts, experts, expert_map, weights, local, tokens_per_expert, capacity, drop)
MXO_FIELDS(MaskToExperts, mask, probs, experts, weights)
MXO_FIELDS(ExpertsToMask, experts, weights, mask, probs)
MXO_FIELDS(MoeAlignBlockSize, experts, expert_map, sorted_token_ids, expert_ids,
           num_tokens_post_pad, group_ends, block, unused)
MXO_FIELDS(BlocksToExperts, sorted_token_ids, expert_ids, num_tokens_post_pad, experts, block)
MXO_FIELDS(GroupedMatmul, x, w, group_ends, sum, y)
MXO_FIELDS(GroupedMatmulWgrad, dy, x, group_ends, sum, dw, main_grad, product)
MXO_FIELDS(FusedDot, a, b, c, a_scales, b_scales, sum, d)
MXO_FIELDS(Cast, x, y)
MXO_FIELDS(AddBias, y, bias, group_ends, out)
MXO_FIELDS(ColumnSum, x, group_ends, sum)
MXO_FIELDS(Approximate, x, b, y, function, ftz)
MXO_FIELDS(Route, logits, bias, experts, weights, tokens_per_expert, score, groups, limited_groups,
           normalize, scale, group_score, other_groups)
MXO_FIELDS(Swiglu, x, probs, y, gate)
MXO_FIELDS(SwigluBackward, x, probs, dy, dx, dprobs, gate)
MXO_FIELDS(SwigluQuantize, x, probs, group_ends, rounding, to, rule, gate)
MXO_FIELDS(SwigluQuantizeBackward, x, probs, dy, group_ends, rounding, to, rule, dprobs, gate)
MXO_FIELDS(ScalingAwareTranspose, codes, scales, group_ends, codes_out, scales_out, underflow)
MXO_FIELDS(CombineRows, rows, slots, weights, out, steps)
MXO_FIELDS(CombineRowsBackward, rows, slots, weights, dout, drows, dweights)
MXO_FIELDS(RouteBackward, logits, experts, dweights, dlogits, score, normalize, scale)
MXO_FIELDS(RouterGradients, dlogits, router, x, dx, drouter)
#undef MXO_FIELDS

/// Calls fn(name, view) for every view that is given, codes and scales apart.
template <typename Op, typename Fn>
void each_view(Op& op, const Fn& fn) {
  each_field(op, [&](const std::string& name, auto& field) {
    if constexpr (requires { field.scaled(); }) {
      if (field.codes.given()) fn(field.scaled() ? name + ".codes" : name, field.codes);
      if (field.scaled()) fn(name + ".scales", field.scales);
    } else if constexpr (requires { field.extent; }) {
      if (field.given()) fn(name, field);
    }
  });
}

/// Writes fields of an operator: views by `told`, and of the rest what is not the default.
class FieldWords {
 public:
  using Told = std::function<std::string(const Operand&)>;
  explicit FieldWords(Told told) : told_(std::move(told)) {}

  /// "x bf16 [4, 64], to codes e4m3 [4, 64] * scales e8m0 [4, 2] of 1x32, rule ..."
  template <typename Op>
  std::string operator()(const Op& op) const {
    const auto [names, words] = all(op);
    const auto defaults = all(Op{}).second;
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
      if (words[i] != defaults[i]) text += (text.empty() ? "" : ", ") + names[i] + words[i];
    return text;
  }

 private:
  template <typename Op>
  std::pair<std::vector<std::string>, std::vector<std::string>> all(const Op& op) const {
    std::pair<std::vector<std::string>, std::vector<std::string>> list;
    each_field(op, [&](const std::string& name, const auto& field) {
      list.second.push_back(word(field));
      const std::string& text = list.second.back();
      list.first.push_back(
          text.starts_with(name + " ") || text.starts_with(name + ".") ? "" : name + " ");
    });
    return list;
  }
  template <typename Void>
  std::string word(const AnyView<Void>& view) const {
    if (!view.given()) return "";
    return told_(to_read(view)) + (view.contiguous() ? "" : " by steps");
  }
  std::string word(const Operand& view) const {
    return view.given() ? told_(view) + (view.contiguous() ? "" : " by steps") : "";
  }
  template <typename Void>
  std::string word(const ScaledView<Void>& of) const {
    if (!of.scaled()) return word(of.codes);
    return word(of.codes) + " * " + word(of.scales) + " of " + name_of(of.block) +
           (of.storage == ScaleStorage::blocked ? " in tiles" : "");
  }
  static std::string word(const ScaleRule& rule) {
    return number(rule.mode) + "/" + number(rule.f32.epsilon) + "/" + number(rule.f32.amax_max) +
           "/" + number(rule.f32.power_of_2) + "/" + number(rule.element.rounding);
  }
  static std::string word(const GateRule& gate) {
    return number(gate.activation) + "/" + number(gate.halves) + "/" + number(gate.bf16_steps) +
           "/" + number(gate.alpha) + "/" + number(gate.limit) + "/" + number(gate.up_offset) +
           "/" + number(gate.arithmetic);
  }
  static std::string word(const Accumulation& sum) {
    return std::string(sum.name) + "/" + number(sum.bits) + "/" + number(sum.split) + "/" +
           std::string(name_of(sum.fold));
  }
  static std::string word(Dtype type) { return std::string(name_of(type)); }
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  static std::string word(T value) { return number(value); }
  template <typename T>
  static std::string number(T value) {
    if constexpr (std::is_enum_v<T>) {
      return std::to_string(static_cast<int>(value));
    } else {
      std::ostringstream text;
      text << value;
      return text.str();
    }
  }

  Told told_;
};

}  // namespace mxo
