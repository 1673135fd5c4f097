// Numbers and biases of a call that are left out, used twice, or used on a part of what they are
// for.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>

#include "golden/explain/hypotheses.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase,
         std::function<bool(Call&)> alter) {
  list.push_back({std::move(name), std::move(phrase), Stage::rule, std::move(alter)});
}

/// In as many digits as give the same number again.
std::string exactly(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.begin(), text.end(), value);
  return {text.begin(), end};
}

/// A parameter that is a number, at another value.
void add_number(const Call& call, std::vector<Hypothesis>& list, const char* key, double value,
                const std::string& id, const std::string& phrase) {
  if (call.set.real(key, value) == value && call.set.has(key)) return;
  add(list, std::string(key) + "=" + id, phrase, [key, value](Call& c) {
    c.set.set(key, exactly(value));
    return true;
  });
}

Parameters without(const Parameters& set, std::string_view key) {
  Parameters rest;
  for (const auto& [name, value] : set.all()) {
    if (name != key) rest.set(name, value);
  }
  return rest;
}

/// Which elements of x [R, 2F] a limit holds.
enum class Held : std::uint8_t { gate, up, top, both };

/// x as a limit leaves it, and no limit after that.
bool limit_before(Call& call, Held held) {
  if (!call.has("x") || call.set.text("halves", "gate_first") != "gate_first") return false;
  const auto limit = static_cast<float>(call.set.real("limit", 0.0));
  Tensor x = call.input("x");
  const Index columns = x.rank() == 0 ? 0 : x.shape().back();
  for (Index i = 0; i < x.elements(); ++i) {
    const bool gate = i % columns < columns / 2;
    if ((gate && held == Held::up) || (!gate && held == Held::gate)) continue;
    const float v = wide_value(x, i);
    const bool low = !gate && held != Held::top && v < -limit;
    if (!(v > limit) && !low) continue;
    store_wide(x, i, low ? -limit : limit);
  }
  call.replace("x", std::move(x));
  call.set = without(call.set, "limit");
  return true;
}

void add_limits(const Call& call, std::vector<Hypothesis>& list) {
  if (!call.set.has("limit")) return;
  add(list, "limit=left_out", "the limit of gate and up is left out", [](Call& c) {
    c.set = without(c.set, "limit");
    return true;
  });
  if (!call.op.starts_with("swiglu")) return;
  const auto before = [&](const char* id, const char* phrase, Held held) {
    add(list, std::string("limit=") + id, phrase,
        [held](Call& c) { return limit_before(c, held); });
  };
  before("gate", "the gate is held below the limit, and up is not", Held::gate);
  before("up", "up is held between the limits, and the gate is not", Held::up);
  before("top", "up is held below the limit, and not above its negative", Held::top);
  if (call.has("dy")) {
    before("gradient", "gradients beyond the limit are those at the limit rather than zero",
           Held::both);
  }
}

/// A bias [N] or [E, N] of f32 or bf16, each element by fn(bias, index).
bool map_bias(Call& call, const std::function<float(const Tensor&, Index)>& fn) {
  Tensor bias = call.input("bias");
  for (Index i = 0; i < bias.elements(); ++i) {
    const float v = fn(call.input("bias"), i);
    if (bias.dtype() == Dtype::f32) {
      bias.as<float>()[i] = v;
    } else {
      bias.as<BF16>()[i] = encode<kBF16>(v);
    }
  }
  call.replace("bias", std::move(bias));
  return true;
}

float at(const Tensor& t, Index i) {
  return t.dtype() == Dtype::f32 ? t.as<float>()[i] : decode(t.as<BF16>()[i]);
}

void add_biases(const Call& call, std::vector<Hypothesis>& list) {
  if (!call.has("bias") || (call.op != "grouped_linear" && call.op != "add_bias")) return;
  add(list, "bias=left_out", "the bias is left out",
      [](Call& c) { return map_bias(c, [](const Tensor&, Index) { return -0.0f; }); });
  add(list, "bias=twice", "the bias is added twice", [](Call& c) {
    return map_bias(c, [](const Tensor& b, Index i) { return 2.0f * at(b, i); });
  });
  const Tensor& bias = call.input("bias");
  const Index columns = bias.rank() == 0 ? 0 : bias.shape().back();
  if (columns == 0) return;
  for (const Index by : {-1, 1}) {
    add(list, "bias=columns",
        std::string("the bias of the column ") + (by < 0 ? "before" : "after") + " is added",
        [columns, by](Call& c) {
          return map_bias(c, [columns, by](const Tensor& b, Index i) {
            return at(b, i / columns * columns + (i % columns + by + columns) % columns);
          });
        });
  }
  if (bias.rank() != 2) return;
  const Index n = bias.elements();
  add(list, "bias=first", "the bias of expert 0 is added to every group", [columns](Call& c) {
    return map_bias(c, [columns](const Tensor& b, Index i) { return at(b, i % columns); });
  });
  for (const Index by : {-1, 1}) {
    add(list, "bias=other_expert",
        std::string("the bias of the expert ") + (by < 0 ? "before" : "after") + " is added",
        [columns, by, n](Call& c) {
          return map_bias(c, [columns, by, n](const Tensor& b, Index i) {
            return at(b, (i + by * columns + n) % n);
          });
        });
  }
}

}  // namespace

void add_left_out_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.has("main_grad")) {
    add(list, "main_grad=left_out", "the product is not added to main_grad: it takes its place",
        [](Call& c) {
          c.replace("main_grad", Tensor(Dtype::f32, c.input("main_grad").shape()));
          return true;
        });
  }
  const bool routes = call.op == "route" || call.op == "moe_layer";
  const bool gates = call.op.starts_with("swiglu") || call.op == "moe_layer";
  if (routes && call.set.has("scale")) {
    const double scale = call.set.real("scale", 1.0);
    add_number(call, list, "scale", 1.0, "left_out", "the factor of the weights is left out");
    add_number(call, list, "scale", scale * scale, "twice",
               "the factor of the weights is applied twice");
  }
  if (!gates) return add_biases(call, list);
  add_limits(call, list);
  if (call.set.has("alpha")) {
    add_number(call, list, "alpha", 1.0, "left_out", "alpha is 1: the gate is a sigma(a)");
  }
  add_number(call, list, "alpha", 1.702, "1.702", "alpha is 1.702: the gate is a sigma(1.702 a)");
  add_number(call, list, "up_offset", call.set.real("up_offset", 0.0) == 0.0 ? 1.0 : 0.0,
             call.set.real("up_offset", 0.0) == 0.0 ? "1" : "left_out",
             call.set.real("up_offset", 0.0) == 0.0 ? "up is raised by 1" : "up is not raised");
}

}  // namespace mxo
