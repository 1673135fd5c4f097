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

/// y of an expert layer whose bias joins the sum in f32, before the one rounding to bf16: of
/// element (group, row, column) the bias is index(...) of all of them.
using BiasIndex = Index (*)(Index group, Index row, Index column, Index columns);

NamedTensors add_before_rounding(Backend& backend, const Call& call, BiasIndex index) {
  Call plain = call;
  plain.inputs.erase("bias");
  plain.inputs.erase("dy");
  plain.set.set("out", "f32");
  plain.set.set("only", "y");
  NamedTensors out = run_call(backend, plain);
  const Tensor& sums = out.at("y");
  const Tensor& bias = call.input("bias");
  const Tensor& ends = call.input("group_ends");
  const Index columns = sums.extent(1);
  Tensor y(Dtype::bf16, sums.shape());
  Index g = 0;
  for (Index r = 0; r < sums.extent(0); ++r) {
    while (g + 1 < ends.elements() && r >= ends.as<std::int32_t>()[g]) ++g;
    for (Index c = 0; c < columns; ++c) {
      const Index i = bias.rank() == 1 ? index(0, r, c, columns) : index(g, r, c, columns);
      const Index n = r * columns + c;
      y.as<BF16>()[n] = encode<kBF16>(sums.as<float>()[n] + at(bias, i));
    }
  }
  out.insert_or_assign("y", std::move(y));
  return out;
}

void add_fused_biases(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op != "grouped_linear" || call.set.text("out", "bf16") != "bf16" || call.has("dy"))
    return;
  const auto fused = [&](const char* id, std::string phrase, BiasIndex index) {
    Hypothesis h{id, std::move(phrase), Stage::output};
    h.run = [index](Backend& b, const Call& c) { return add_before_rounding(b, c, index); };
    list.push_back(std::move(h));
  };
  fused("bias=before_rounding", "the bias joins the sum before it is rounded to bf16",
        [](Index g, Index, Index c, Index n) { return g * n + c; });
  fused("bias=by_row", "the bias is added by row rather than by column, before the sum is rounded",
        [](Index g, Index r, Index, Index n) { return g * n + r % n; });
}

void add_biases(const Call& call, std::vector<Hypothesis>& list) {
  add_fused_biases(call, list);
  if (!call.has("bias") || (call.op != "grouped_linear" && call.op != "add_bias")) return;
  add(list, "bias=left_out", "the bias is left out",
      [](Call& c) { return map_bias(c, [](const Tensor&, Index) { return -0.0f; }); });
  for (const auto& [times, words] :
       {std::pair{2.0f, "twice"}, std::pair{4.0f, "4 times"}, std::pair{8.0f, "8 times"},
        std::pair{-1.0f, "with the other sign"}}) {
    add(list, times == 2.0f ? "bias=twice" : "bias=times",
        std::string("the bias is added ") + words, [times = times](Call& c) {
          return map_bias(c, [times](const Tensor& b, Index i) { return times * at(b, i); });
        });
  }
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
