// Another scale mode, rule, format, block or epilogue.
#include <algorithm>

#include "formats/mx_block.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/wide_values.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/quantize.h"

namespace mxo {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return text;
}

const CatalogueEntry& entry_of(const Call& call) { return catalogue_entry(call.op); }

/// The alternatives of a parameter, or none if the operator lacks it.
std::vector<std::string> values_of(const Call& call, std::string_view key) {
  std::vector<std::string> values;
  for (const ParameterSpec& spec : entry_of(call).parameters) {
    if (spec.key != key) continue;
    std::string_view rest = spec.values;
    while (!rest.empty()) {
      const std::size_t bar = rest.find('|');
      values.emplace_back(rest.substr(0, bar));
      rest = bar == std::string_view::npos ? std::string_view{} : rest.substr(bar + 1);
    }
  }
  return values;
}

/// Codes become plain bytes, which an operator takes as whatever format it is told.
void forget_formats(Call& call) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs) {
    if (is_minifloat8(tensor->dtype())) names.push_back(name);
  }
  for (const std::string& name : names) {
    Tensor bytes = call.input(name);
    bytes.reinterpret_as(Dtype::u8);
    call.replace(name, std::move(bytes));
  }
}

/// Every other value of `key`, with a phrase made from both.
template <typename Phrase>
void add_alternatives(const Call& call, std::string_view key, std::vector<Hypothesis>& list,
                      Phrase phrase, Stage stage = Stage::rule, Target target = Target::any) {
  const std::vector<std::string> values = values_of(call, key);
  if (values.size() < 2) return;
  const std::string now(call.set.text(key, values.front()));
  for (const std::string& other : values) {
    if (other == now) continue;
    list.push_back({std::string(key) + "=" + other,
                    phrase(other, now),
                    stage,
                    [key, other](Call& c) {
                      c.set.set(key, other);
                      if (key.starts_with("format")) forget_formats(c);
                      return true;
                    },
                    {},
                    true});
    list.back().target = target;
  }
}

/// Both sides of a product taken as another format.
void add_formats_of_both(const Call& call, std::vector<Hypothesis>& list) {
  const std::string other_side = values_of(call, "format_w").empty() ? "format_dy" : "format_w";
  if (values_of(call, "format_x").empty() || values_of(call, other_side).empty()) return;
  for (const std::string& other : values_of(call, "format_x")) {
    if (call.set.text("format_x", "e4m3") == other || call.set.text(other_side, "e4m3") == other) {
      continue;  // of one side only: above
    }
    list.push_back({"format=" + other,
                    "both sides are taken as " + other,
                    Stage::rule,
                    [other, other_side](Call& c) {
                      c.set.set("format_x", other);
                      c.set.set(other_side, other);
                      forget_formats(c);
                      return true;
                    },
                    {},
                    true});
    list.back().target = Target::format;
  }
}

bool takes(const Call& call, std::string_view key) {
  for (const ParameterSpec& spec : entry_of(call).parameters) {
    if (spec.key == key) return true;
  }
  return false;
}

/// One value of an open parameter.
void add_value(const Call& call, const std::string& key, const std::string& value,
               std::vector<Hypothesis>& list, Target target = Target::any) {
  if (!takes(call, key) || call.set.text(key, "") == value) return;
  list.push_back({key + "=" + value, key + " is " + value, Stage::rule, [key, value](Call& c) {
                    c.set.set(key, value);
                    return true;
                  }});
  list.back().target = target;
}

/// Every other rule of scales that there is: those that bear a stack's name before its variants
/// ("torchao_multiplier"), since the first of two that give the same bits is told.
void add_rules(const Call& call, std::vector<Hypothesis>& list) {
  if (!takes(call, "rule")) return;
  const std::string now(call.set.text("rule", "torchao"));
  std::vector<std::string_view> names;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (names.empty() || names.back() != row.name) names.push_back(row.name);
  }
  std::stable_partition(names.begin(), names.end(),
                        [](std::string_view name) { return name.find('_') == name.npos; });
  for (const std::string_view name : names) {
    const std::string other(name);
    if (other == now) continue;
    list.push_back({"rule=" + other, "scales follow the rule " + other + " rather than " + now,
                    Stage::rule, [other](Call& c) {
                      c.set.set("rule", other);
                      return true;
                    }});
    list.back().target = Target::scale_rule;
  }
}

/// Blocks that run along the other axis.
void add_blocks(const Call& call, std::vector<Hypothesis>& list) {
  if (!takes(call, "block")) return;
  const std::string now(call.set.text("block", "1x32"));
  const std::size_t by = now.find('x');
  if (by == now.npos) return;
  const auto other_axis = [](std::string extent) {
    return extent == "K" ? std::string("R") : extent == "R" ? std::string("K") : extent;
  };
  const std::string other = other_axis(now.substr(by + 1)) + "x" + other_axis(now.substr(0, by));
  if (other == now) return;
  list.push_back({"block=" + other, "blocks are " + other + " rather than " + now, Stage::rule,
                  [other](Call& c) {
                    c.set.set("block", other);
                    return true;
                  }});
}

/// Calls fn(x, scale, code) for every element of codes [.., K] with scales along K.
template <typename Fn>
bool for_quantized(const Call& call, NamedTensors& out, Fn fn) {
  const auto codes = out.find("codes");
  const auto scales = out.find("scales");
  if (call.op != "quantize" || codes == out.end() || scales == out.end()) return false;
  const BlockExtents extents = scale_choice(call.op, call.set).block;
  if (extents.rows != 1 || extents.columns == kWhole || scales->second.dtype() != Dtype::e8m0) {
    return false;
  }
  const Tensor& x = call.input("x");
  const Index block = extents.columns;
  if (scales->second.elements() * block != codes->second.elements()) return false;  // tiles
  for (Index b = 0; b < scales->second.elements(); ++b) {
    std::vector<float> values;
    for (Index i = b * block; i < (b + 1) * block; ++i) {
      values.push_back(wide_value(x, i));
    }
    fn(values, scales->second.as<E8M0>()[b], codes->second.as<std::uint8_t>() + b * block);
  }
  return true;
}

bool round_amax_to_bf16(const Call& call, NamedTensors& out) {
  const Dtype format = call.set.format("format", "e4m3");
  return for_quantized(call, out, [&](const auto& values, E8M0& scale, std::uint8_t* codes) {
    std::uint32_t amax = 0;
    for (const float v : values) amax = join_amax(amax, v, NanRule::propagate);
    const float rounded = decode(encode<kBF16>(bit_cast<float>(amax)));
    visit_minifloat8(format, [&](auto tag) {
      constexpr FormatSpec kSpec = decltype(tag)::type::spec;
      scale = shared_scale<kSpec>(rounded, scale_mode_of(call.set), kTorchao);
      for (const float v : values) *codes++ = quantize_element<kSpec>(v, scale).bits;
    });
  });
}

bool leave_out_saturation(const Call& call, NamedTensors& out) {
  const Dtype format = call.set.format("format", "e4m3");
  return for_quantized(call, out, [&](const auto& values, E8M0& scale, std::uint8_t* codes) {
    visit_minifloat8(format, [&](auto tag) {
      constexpr FormatSpec kSpec = decltype(tag)::type::spec;
      for (const float v : values) {
        *codes++ = encode<kSpec>(v * reciprocal(scale), Overflow::nonfinite).bits;
      }
    });
  });
}

}  // namespace

void add_rule_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  add_alternatives(
      call, "scale_mode", list,
      [](const auto& other, const auto& now) {
        return "the scales are " + upper(other) + " rather than " + upper(now);
      },
      Stage::rule, Target::scale_rule);
  for (const char* key : {"format", "format_x", "format_w", "format_dy"}) {
    if (values_of(call, key).empty()) continue;
    add_alternatives(
        call, key, list,
        [key](const auto& other, const auto& now) {
          const std::string_view side(key);
          return std::string(side == "format"     ? "the codes are"
                             : side == "format_x" ? "x is"
                             : side == "format_w" ? "w is"
                                                  : "dy is") +
                 " taken as " + other + " rather than " + now;
        },
        Stage::rule, Target::format);
  }
  add_formats_of_both(call, list);
  add_rules(call, list);
  add_blocks(call, list);
  for (const char* power : {"none", "down", "up"}) add_value(call, "power_of_2", power, list);
  for (const char* rows : {"1", "8", "16", "32", "64", "128", "256"}) {
    add_value(call, "alignment", rows, list, Target::format);
  }
  add_alternatives(call, "layout", list, [](const auto& other, const auto& now) {
    return "the layout is " + other + " rather than " + now;
  });
  for (const char* key :
       {"overflow", "rounding", "underflow", "score", "normalize", "other_groups"}) {
    add_alternatives(call, key, list, [key](const auto& other, const auto& now) {
      return std::string(key) + " is " + other + " rather than " + now;
    });
  }
  if (call.op != "quantize") return;
  list.push_back({"amax=bf16", "amax is rounded to bf16 before the scale is chosen", Stage::output,
                  [](Call&) { return true; },
                  [](const Call& c, NamedTensors& out) { return round_amax_to_bf16(c, out); }});
  list.push_back({"no_saturation", "values beyond the largest code do not saturate", Stage::output,
                  [](Call&) { return true; },
                  [](const Call& c, NamedTensors& out) { return leave_out_saturation(c, out); }});
}

void add_setting_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  for (const char* key : {"group_score", "recipe", "pad", "activation", "arithmetic", "halves",
                          "bf16_steps", "steps", "combine_steps", "scores", "second_bias",
                          "router_logits", "pipeline", "precision", "over"}) {
    add_alternatives(
        call, key, list,
        [key](const auto& other, const auto& now) {
          return std::string(key) + " is " + other + " rather than " + now;
        },
        // Another arithmetic is that of every element, or of none.
        std::string_view(key) == "arithmetic" ? Stage::output : Stage::rule);
  }
}

Hypothesis read_elsewhere(std::string name, std::string phrase, std::vector<Reading> readings) {
  Hypothesis h{std::move(name), std::move(phrase), Stage::input};
  h.alter = [readings](Call& call) {
    return std::all_of(readings.begin(), readings.end(),
                       [&call](const Reading& r) { return read_whole(call, r); });
  };
  h.readings = std::move(readings);
  return h;
}

std::vector<Hypothesis> hypotheses_about(const Call& call) {
  std::vector<Hypothesis> list;
  add_rule_hypotheses(call, list);
  add_block_hypotheses(call, list);
  add_input_hypotheses(call, list);
  add_code_hypotheses(call, list);
  add_addressing_hypotheses(call, list);
  add_route_hypotheses(call, list);
  add_activation_hypotheses(call, list);
  add_limit_hypotheses(call, list);
  add_rank_hypotheses(call, list);
  add_rank_row_hypotheses(call, list);
  add_fused_quantiser_hypotheses(call, list);
  add_scale_order_hypotheses(call, list);
  add_precision_hypotheses(call, list);
  add_shared_scales(call, list);
  add_sum_hypotheses(call, list);
  add_output_hypotheses(call, list);
  add_partial_hypotheses(call, list);
  add_setting_hypotheses(call, list);
  add_left_out_hypotheses(call, list);
  add_elementwise_hypotheses(call, list);
  add_index_hypotheses(call, list);
  add_double_rounding(call, list);
  add_bias_hypotheses(call, list);
  add_unscaled_hypotheses(call, list);
  add_approximate_hypotheses(call, list);
  return list;
}

}  // namespace mxo
