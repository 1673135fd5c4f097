// Limits, capacities, factors and gradients that are left out, or are other numbers.
#include <array>
#include <charconv>

#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

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

/// What a gate has beside silu, and its value in GPT-OSS.
constexpr std::pair<const char*, const char*> kGate[] = {
    {"alpha", "1.702"}, {"limit", "7"}, {"up_offset", "1"}};

/// Gates of which no number is passed on, or where none is asked those of GPT-OSS; with halves as
/// they are, or another order of them.
void add_gate_forms(const Call& call, List& list) {
  std::string given;
  Index keys = 0;
  for (const auto& [key, value] : kGate) {
    if (!call.set.has(key)) continue;
    given += (keys++ == 0 ? "" : " and ") + std::string(key);
  }
  const std::string own(call.set.text("halves", "gate_first"));
  for (const std::string halves : {"gate_first", "interleaved", "up_first"}) {
    const Index departs = halves == own ? 0 : 1;
    if ((keys > 0 && keys + departs < 3) || own == "gate_only") continue;
    add_altered(
        list, keys > 0 ? "gate=plain" : "gate=gpt_oss",
        (keys > 0 ? given + " are left out"
                  : "the gate is that of GPT-OSS, alpha 1.702, limit 7 and up_offset 1") +
            (departs > 0 ? ", and halves is " + halves + " rather than " + own : std::string()),
        [halves, plain = keys > 0](Call& c) {
          for (const auto& [key, value] : kGate) {
            c.set = without(c.set, key);
            if (!plain) c.set.set(key, value);
          }
          c.set.set("halves", halves);
          return true;
        },
        Stage::rule);
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
  if (!call.has("x") || call.set.text("halves", "gate_first") != "gate_first") return false;
  const auto limit = static_cast<float>(call.set.real("limit", 0.0));
  const Tensor& x = call.input("x");
  const Index columns = x.rank() == 0 ? 1 : x.shape().back();
  call.replace("x", with_values(x, [&](Index i) {
                 const float v = wide_value(x, i);
                 const bool gate = i % columns < columns / 2;
                 if (held == (gate ? Held::up : Held::gate)) return v;
                 if (v > limit) return limit;
                 return !gate && held != Held::top && v < -limit ? -limit : v;
               }));
  call.set = without(call.set, "limit");
  return true;
}

void add_limits(const Call& call, List& list) {
  if (!call.set.has("limit")) return;
  add_altered(
      list, "limit=left_out", "the limit of gate and up is left out",
      [](Call& c) {
        c.set = without(c.set, "limit");
        return true;
      },
      Stage::rule);
  for (const Row<Held>& row : kLimits) {
    if (!call.op.starts_with("swiglu") || (row.of == Held::both && !call.has("dy"))) break;
    add_altered(
        list, row.name, row.phrase, [held = row.of](Call& c) { return limit_before(c, held); },
        Stage::rule);
  }
}

constexpr Row<float> kMainGrads[] = {
    {"left_out", "the product is not added to main_grad: it takes its place", 0.0f},
    {"twice", "main_grad is added twice", 2.0f},
    {"subtracted", "main_grad is subtracted rather than added", -1.0f},
};

/// The output as a whole by the factor of the weights, in bf16.
NamedTensors scale_all(Backend& backend, const Call& call) {
  Call plain = call;
  plain.set = without(call.set, "scale");
  NamedTensors out = run_call(backend, plain);
  const auto factor = static_cast<float>(call.set.real("scale", 1.0));
  for (auto& [name, tensor] : out) {
    if (name != "y" && !name.ends_with(".y")) continue;
    Tensor& y = tensor;
    y = with_values(y, [&](Index i) { return factor * wide_value(y, i); });
  }
  return out;
}

/// Slots of an expert beyond another number of them, or the first ones in place of the last.
void add_capacities(const Call& call, List& list) {
  const Index capacity = call.set.integer("capacity", 1);
  add_altered(
      list, "capacity=left_out", "the capacity of experts is left out",
      [](Call& c) {
        c.set = without(c.set, "capacity");
        return true;
      },
      Stage::rule);
  for (const Index other : {capacity - 1, capacity + 1})
    add_number(call, list, "capacity", static_cast<double>(other), "an expert takes {} slots");
  add_run(list, "drop=first", "the first slots of an expert are dropped rather than the last",
          [](Backend& backend, const Call& given) {
            Call turned = given;
            const auto turn = [](const Tensor& t) {
              return with_rows(t, [](Index r, Index rows) { return rows - 1 - r; });
            };
            for (const char* name : {"experts", "weights"}) {
              if (given.has(name)) turned.replace(name, turn(given.input(name)));
            }
            NamedTensors out = run_call(backend, turned);
            out.at("local") = turn(out.at("local"));
            return out;
          });
}

}  // namespace

void add_left_out_hypotheses(const Call& call, List& list) {
  for (const auto& [id, phrase, by, stage] : kMainGrads) {
    if (!call.has("main_grad")) break;
    add_altered(
        list, std::string("main_grad=") + id, phrase,
        [by = by](Call& c) {
          const Tensor& given = c.input("main_grad");
          c.replace("main_grad",
                    with_values(given, [&](Index i) { return by * given.as<float>()[i]; }));
          return true;
        },
        Stage::rule);
  }
  if (call.op == "map_experts" && call.set.has("capacity")) add_capacities(call, list);
  if ((call.op == "route" || call.op == "moe_layer") && call.set.has("scale")) {
    const double scale = call.set.real("scale", 1.0);
    add_number(call, list, "scale", 1.0, "the factor of the weights is left out", "left_out");
    add_number(call, list, "scale", scale * scale, "the factor of the weights is applied twice",
               "twice");
    if (call.has("shared.w1") && !call.has("dy") && !call.has("rank0.dy"))
      add_run(list, "scale=of_all", "the factor of the weights multiplies the shared expert, too",
              scale_all);
  }
  if (!call.op.starts_with("swiglu") && call.op != "moe_layer") return;
  const Index k = call.set.integer("top_k", 1);
  for (const Index other : {k - 1, k + 1}) {
    if (call.op != "moe_layer" || other < 1) continue;
    add_set(list, "top_k", std::to_string(other),
            filled("every token takes {} experts rather than {}", other, k));
  }
  add_gate_forms(call, list);
  add_limits(call, list);
  for (const double limit : {5.0, 6.0, 7.0, 8.0, 10.0}) {
    add_number(call, list, "limit", limit,
               "the limit is {}: the gate is cut at {} and up is clamped to {}");
  }
  if (call.set.has("alpha"))
    add_number(call, list, "alpha", 1.0, "alpha is 1: the gate is a sigma(a)", "left_out");
  for (const double alpha : {1.702, 1.7, 2.0, 0.5})
    add_number(call, list, "alpha", alpha, "alpha is {}: the gate is a sigma({} a)");
  if (call.set.real("up_offset", 0.0) != 0.0)
    add_number(call, list, "up_offset", 0.0, "up is not raised", "left_out");
  for (const double offset : {1.0, 0.5, 2.0, -1.0})
    add_number(call, list, "up_offset", offset, "up is raised by {}");
}

}  // namespace mxo
