// Other values of the parameters of a call, as they are listed.
#include <algorithm>

#include "formats/dtype.h"
#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

/// A parameter with a list of values, and what is said of another of them.
struct Setting {
  std::string_view key;
  const char* words = nullptr;  ///< before the value; null: "<key> is "
  Target target = Target::any;
  Stage stage = Stage::rule;
};

constexpr Setting kRuleSettings[] = {
    {"scale_mode", "the scales are ", Target::scale_rule},
    {"format", "the codes are taken as ", Target::format},
    {"format_x", "x is taken as ", Target::format},
    {"format_w", "w is taken as ", Target::format},
    {"format_dy", "dy is taken as ", Target::format},
};
constexpr Setting kOthers[] = {{"layout", "the layout is "},
                               {"overflow"},
                               {"rounding"},
                               {"underflow"},
                               {"normalize"},
                               {"score"},
                               {"other_groups"}};
/// Tried later.  Another arithmetic is that of every element, or of none.
constexpr Setting kOfLayers[] = {{"group_score"},
                                 {"recipe"},
                                 {"pad"},
                                 {"activation"},
                                 {"arithmetic", nullptr, Target::any, Stage::output},
                                 {"halves"},
                                 {"bf16_steps"},
                                 {"steps"},
                                 {"combine_steps"},
                                 {"scores"},
                                 {"second_bias"},
                                 {"router_logits"},
                                 {"pipeline"},
                                 {"precision"},
                                 {"over"}};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return text;
}

/// The values that a parameter lists, its default first; none where the operator lacks it.
std::vector<std::string> values_of(const Call& call, std::string_view key) {
  const ParameterSpec* spec = parameter_of(call, key);
  std::vector<std::string> values;
  std::string_view rest = spec == nullptr ? std::string_view{} : spec->values;
  while (!rest.empty()) {
    const std::size_t bar = rest.find('|');
    values.emplace_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view{} : rest.substr(bar + 1);
  }
  return values;
}

/// Codes become plain bytes, which an operator takes as whatever format it is told.
void forget_formats(Call& call) {
  const auto given = call.inputs;
  for (const auto& [name, tensor] : given) {
    if (!is_minifloat8(tensor->dtype())) continue;
    Tensor bytes = *tensor;
    bytes.reinterpret_as(Dtype::u8);
    call.replace(name, std::move(bytes));
  }
}

/// One or two parameters at another value, of which a part may be altered alone.
Hypothesis& add_alternative(List& list, std::string name, std::string phrase,
                            std::vector<std::string> keys, const std::string& value,
                            Target target) {
  Hypothesis& h = add_altered_locally(list, std::move(name), std::move(phrase),
                                      [keys = std::move(keys), value, target](Call& c) {
                                        for (const std::string& key : keys) c.set.set(key, value);
                                        if (target == Target::format) forget_formats(c);
                                        return true;
                                      });
  h.target = target;
  return h;
}

/// "e4m3fnuz (bias 8)": of codes that are made.
std::string with_bias(const std::string& format) {
  const Dtype dtype = dtype_named(format);
  if (!is_minifloat8(dtype)) return format;
  return format + " (bias " +
         visit_minifloat8(dtype,
                          [](auto tag) { return std::to_string(decltype(tag)::type::spec.bias); }) +
         ")";
}

/// Whether codes are what a call makes, rather than what it takes.
bool makes_codes(const Call& call) {
  return std::ranges::none_of(call.inputs,
                              [](const auto& input) { return input.first.ends_with("codes"); });
}

/// Every other value of these parameters.
void add_alternatives(const Call& call, std::span<const Setting> settings, List& list) {
  for (const Setting& s : settings) {
    const std::vector<std::string> values = values_of(call, s.key);
    if (values.size() < 2) continue;
    const std::string key(s.key);
    const std::string now(call.set.text(key, values.front()));
    const bool made = key == "format" && makes_codes(call);
    const auto spoken = [&](const std::string& value) {
      if (made) return with_bias(value);
      return s.target == Target::scale_rule ? upper(value) : value;
    };
    for (const std::string& other : values) {
      if (other == now) continue;
      const std::string words = made                 ? "the codes are "
                                : s.words == nullptr ? key + " is "
                                                     : s.words;
      add_alternative(list, key + "=" + other,
                      words + spoken(other) + " rather than " + spoken(now), {key}, other, s.target)
          .stage = s.stage;
    }
  }
}

/// Both sides of a product taken as another format.
void add_formats_of_both(const Call& call, List& list) {
  const char* second = parameter_of(call, "format_w") == nullptr ? "format_dy" : "format_w";
  if (parameter_of(call, second) == nullptr) return;
  for (const std::string& other : values_of(call, "format_x")) {
    // Of one side only: above.
    if (call.set.text("format_x", "e4m3") == other || call.set.text(second, "e4m3") == other)
      continue;
    add_alternative(list, "format=" + other, "both sides are taken as " + other,
                    {"format_x", second}, other, Target::format)
        .stage = Stage::rule;
  }
}

/// Every other rule of scales that there is: those that bear a stack's name before its variants
/// ("torchao_multiplier"), since the first of two that give the same bits is told.
void add_rules(const Call& call, List& list) {
  if (parameter_of(call, "rule") == nullptr) return;
  const std::string now(call.set.text("rule", "torchao"));
  std::vector<std::string> names;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (names.empty() || names.back() != row.name) names.emplace_back(row.name);
  }
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name.find('_') == name.npos; });
  for (const std::string& other : names) {
    if (other == now) continue;
    add_set(list, "rule", other, filled("scales follow the rule {} rather than {}", other, now))
        .target = Target::scale_rule;
  }
}

/// Blocks that run along the other axis.
void add_blocks(const Call& call, List& list) {
  if (parameter_of(call, "block") == nullptr) return;
  const std::string now(call.set.text("block", "1x32"));
  const std::size_t by = now.find('x');
  if (by == now.npos) return;
  const auto other_axis = [](const std::string& extent) {
    return extent == "K" ? std::string("R") : extent == "R" ? std::string("K") : extent;
  };
  const std::string other = other_axis(now.substr(by + 1)) + "x" + other_axis(now.substr(0, by));
  if (other == now) return;
  add_set(list, "block", other, filled("blocks are {} rather than {}", other, now));
}

/// Some values of a parameter that takes any.
void add_values(const Call& call, const std::string& key, std::initializer_list<const char*> values,
                Target target, List& list) {
  if (parameter_of(call, key) == nullptr) return;
  for (const char* value : values) {
    if (call.set.text(key, "") == value) continue;
    add_set(list, key, value, filled("{} is {}", key, value)).target = target;
  }
}

}  // namespace

void add_rule_hypotheses(const Call& call, List& list) {
  if (call.has("given")) {
    add_altered(
        list, "given=ignored", "the given scales are ignored: scales are those of the amax of x",
        [](Call& c) { return c.inputs.erase("given") > 0; }, Stage::rule);
  }
  add_alternatives(call, kRuleSettings, list);
  add_formats_of_both(call, list);
  add_rules(call, list);
  add_blocks(call, list);
  add_values(call, "power_of_2", {"none", "down", "up"}, Target::any, list);
  add_values(call, "alignment", {"1", "8", "16", "32", "64", "128", "256"}, Target::format, list);
  add_alternatives(call, kOthers, list);
  if (parameter_of(call, "unused") != nullptr) {
    const bool none = call.set.integer("unused", 0) == -1;
    add_set(list, "unused", none ? "0" : "-1",
            none ? "blocks past the last name expert 0 rather than none, -1"
                 : "blocks past the last name none, -1, rather than expert 0",
            "unused=other");
  }
}

void add_setting_hypotheses(const Call& call, List& list) {
  add_alternatives(call, kOfLayers, list);
}

}  // namespace mxo
