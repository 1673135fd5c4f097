// Parameters of a call at other values: those that are listed, other numbers, and left out.
#include <charconv>
#include <set>

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
constexpr Setting kOthers[] = {
    {"layout", "the layout is "},
    {"overflow"},
    {"rounding"},
    {"underflow"},
    {"normalize"},
    {"product", "before it is added to main_grad the sum is rounded to "},
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
  for (auto& [name, tensor] : call.inputs) {
    if (!is_minifloat8(tensor->dtype())) continue;
    Tensor bytes = *tensor;
    bytes.reinterpret_as(Dtype::u8);
    tensor = std::make_shared<const Tensor>(std::move(bytes));
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
  const bool blockwise = call.set.text("precision", "") == "fp8_blockwise";
  const std::string now(call.set.text("rule", blockwise ? "flow" : "torchao"));
  std::vector<std::string> names;
  for (const ScaleRuleRow& row : kScaleRules)
    if (names.empty() || names.back() != row.name) names.emplace_back(row.name);
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name.find('_') == name.npos; });
  for (const std::string& other : names)
    if (other != now)
      add_set(list, "rule", other, filled("scales follow the rule {} rather than {}", other, now))
          .target = Target::whole_rule;
}

/// Some values of a parameter that takes any.
void add_values(const Call& call, const std::string& key, std::initializer_list<const char*> values,
                Target target, List& list) {
  if (parameter_of(call, key) == nullptr) return;
  for (const char* value : values)
    if (call.set.text(key, "") != value)
      add_set(list, key, value, filled("{} is {}", key, value)).target = target;
}

// ---- Numbers.

/// A parameter that is a number, at another value.
void add_number(const Call& call, List& list, const std::string& key, double value,
                const std::string& phrase, std::string id = {}) {
  if (parameter_of(call, key) == nullptr) return;
  if (call.set.has(key) && call.set.real(key, value) == value) return;
  // In as many digits as give the same number again.
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.begin(), digits.end(), value);
  const std::string text(digits.begin(), end);
  if (id.empty()) id = text;
  add_set(list, key, text, filled(phrase, text, text, text), key + "=" + id);
}

/// A number as a narrower type has it.
void add_rounded_number(const Call& call, const char* key, List& list) {
  if (!call.set.has(key)) return;
  const auto given = static_cast<float>(call.set.real(key, 0.0));
  for (const auto& [type, rounded] : {std::pair{"bf16", by_bf16(given)}, {"f16", by_f16(given)}})
    if (rounded != given)
      add_number(call, list, key, rounded, filled("{} is rounded to {}: {}", key, type, "{}"),
                 type);
}

/// The numbers of a gate, where they are left out and others.
void add_gate_numbers(const Call& call, List& list) {
  for (const double limit : {5.0, 6.0, 7.0, 8.0, 10.0})
    add_number(call, list, "limit", limit,
               "the limit is {}: the gate is cut at {} and up is clamped to {}");
  // A limit is positive: the least one, whose halves are zero.
  add_set(list, "limit", "1e-45", "the limit is 0: the gate is cut at 0 and up is clamped to 0",
          "limit=0");
  if (call.set.has("alpha"))
    add_number(call, list, "alpha", 1.0, "alpha is 1: the gate is a sigma(a)", "left_out");
  for (const double alpha : {1.702, 1.7, 2.0, 0.5})
    add_number(call, list, "alpha", alpha, "alpha is {}: the gate is a sigma({} a)");
  add_number(call, list, "alpha", 0.0, "alpha is 0: sigma is 0.5 of every gate");
  if (call.set.has("up_offset"))
    add_number(call, list, "up_offset", 0.0, "up is not raised", "left_out");
  for (const double offset : {1.0, 0.5, 2.0, -1.0})
    add_number(call, list, "up_offset", offset, "up is raised by {}");
}

/// What a gate has beside silu, and its value in GPT-OSS.
constexpr std::pair<const char*, const char*> kGate[] = {
    {"alpha", "1.702"}, {"limit", "7"}, {"up_offset", "1"}};

/// Gates of which no number is passed on, or where none is asked those of GPT-OSS, also without its
/// limit, which few values reach; with halves as they are, or another order of them.
void add_gate_forms(const Call& call, List& list) {
  std::string given;
  Index keys = 0;
  for (const auto& [key, value] : kGate)
    if (call.set.has(key)) given += (keys++ == 0 ? "" : " and ") + std::string(key);
  const std::string own(call.set.text("halves", "gate_first"));
  const bool plain = keys > 0;
  for (const std::string halves : {"gate_first", "interleaved", "up_first"}) {
    for (const bool limited : {false, true}) {
      if ((plain && (limited || keys + (halves != own) < 3)) || own == "gate_only") continue;
      add_altered(list,
                  plain     ? "gate=plain"
                  : limited ? "gate=gpt_oss"
                            : "gate=unlimited",
                  (plain     ? given + " are left out"
                   : limited ? "the gate is that of GPT-OSS, alpha 1.702, limit 7 and up_offset 1"
                             : "the gate is a sigma(1.702 a) and up is raised by 1") +
                      (halves == own ? "" : ", and halves is " + halves + " rather than " + own),
                  [halves, plain, limited](Call& c) {
                    for (const auto& [key, value] : kGate) {
                      drop(c, key);
                      if (!plain) c.set.set(key, value);
                    }
                    if (!limited) drop(c, "limit");
                    c.set.set("halves", halves);
                  })
          .stage = Stage::rule;
    }
  }
}

/// Which elements of x [R, 2F] a limit holds.
enum class Held : std::uint8_t { gate, up, top, both };

constexpr Row<Held> kLimits[] = {
    {"limit=gate", "the gate is held below the limit, and up is not", Held::gate},
    {"limit=up", "up is held between the limits, and the gate is not", Held::up},
    {"limit=top", "up is held below the limit, and not above its negative", Held::top},
    {"limit=gradient", "gradients beyond the limit are those at the limit rather than zero",
     Held::both},
};

/// x as a limit leaves it, and no limit after that.
bool limit_before(Call& call, Held held) {
  const std::string_view halves = call.set.text("halves", "gate_first");
  if (halves == "gate_only") return false;
  const auto limit = static_cast<float>(call.set.real("limit", 0.0));
  const Tensor& x = call.input("x");
  const Index columns = x.extent(1);
  map_values(call, "x", [&](float v, Index i) {
    const bool gate = halves == "interleaved"
                          ? i % 2 == 0
                          : (i % columns < columns / 2) == (halves == "gate_first");
    if (held == (gate ? Held::up : Held::gate)) return v;
    if (v > limit) return limit;
    return !gate && held != Held::top && v < -limit ? -limit : v;
  });
  drop(call, "limit");
  return true;
}

void add_limits(const Call& call, List& list) {
  if (!call.set.has("limit")) return;
  add_left_out(list, "limit", "the limit of gate and up is left out");
  for (const Row<Held>& row : kLimits) {
    if (!call.op.starts_with("swiglu") || (row.of == Held::both && !call.has("dy"))) break;
    add_altered(list, row.name, row.phrase, [held = row.of](Call& c) {
      return limit_before(c, held);
    }).stage = Stage::rule;
  }
}

/// The output as a whole by the factor of the weights, in bf16.
NamedTensors scale_all(Backend& backend, const Call& call) {
  Call plain = call;
  drop(plain, "scale");
  NamedTensors out = run_call(backend, plain);
  const auto factor = static_cast<float>(call.set.real("scale", 1.0));
  for (auto& [name, tensor] : out)
    if (name == "y" || name.ends_with(".y"))
      tensor =
          with_values(tensor, [&y = tensor, factor](Index i) { return factor * wide_value(y, i); });
  return out;
}

/// Slots of an expert beyond another number of them, or the first ones in place of the last.
void add_capacities(const Call& call, List& list) {
  const Index capacity = call.set.integer("capacity", 1);
  add_left_out(list, "capacity", "the capacity of experts is left out");
  for (const Index other : {capacity - 1, capacity + 1})
    add_number(call, list, "capacity", static_cast<double>(other), "an expert takes {} slots");
  if (call.has("weights")) {
    add_altered(list, "drop=position",
                "the later slots are dropped rather than those of less weight",
                [](Call& c) {
                  c.inputs.erase("weights");
                  drop(c, "drop");
                })
        .stage = Stage::rule;
  }
  add_run(list, "drop=first", "the first slots of an expert are dropped rather than the last",
          [](Backend& backend, const Call& given) {
            Call turned = given;
            const auto turn = [](const Tensor& t) { return with_rows(t, reversed); };
            for (const char* name : {"experts", "weights"})
              if (given.has(name)) turned.replace(name, turn(given.input(name)));
            NamedTensors out = run_call(backend, turned);
            out.at("local") = turn(out.at("local"));
            return out;
          });
}

}  // namespace

void add_rule_hypotheses(const Call& call, List& list) {
  if (call.has("given"))
    add_left_out(list, "given", "the given scales are ignored: scales are those of the amax of x",
                 "given=ignored");
  add_alternatives(call, kRuleSettings, list);
  add_formats_of_both(call, list);
  add_rules(call, list);
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
  if (call.op == "map_experts" && call.set.has("capacity")) add_capacities(call, list);
  if ((call.op == "route" || call.op == "moe_layer") && call.set.has("scale")) {
    const double scale = call.set.real("scale", 1.0);
    add_number(call, list, "scale", 1.0, "the factor of the weights is left out", "left_out");
    add_number(call, list, "scale", scale * scale, "the factor of the weights is applied twice",
               "twice");
    add_rounded_number(call, "scale", list);
    if (call.has("shared.w1") && !call.has("dy") && !call.has("rank0.dy"))
      add_run(list, "scale=of_all", "the factor of the weights multiplies the shared expert, too",
              scale_all);
  }
  if (!call.op.starts_with("swiglu") && call.op != "moe_layer") return;
  const Index k = call.set.integer("top_k", 1);
  for (const Index other : std::set{Index{1}, k - 1, k + 1, k + 2, k + 3, 2 * k})
    if (call.op == "moe_layer" && other >= 1 && other != k)
      add_set(list, "top_k", std::to_string(other),
              filled("every token takes {} experts rather than {}", other, k));
  add_gate_forms(call, list);
  add_limits(call, list);
  add_gate_numbers(call, list);
  for (const char* key : {"alpha", "limit", "up_offset"}) add_rounded_number(call, key, list);
}

}  // namespace mxo
