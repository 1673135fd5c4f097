// Limits of a gated activation that hold something else than gate and up, and sums of f64.
#include <algorithm>
#include <cmath>

#include "formats/exp.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

float silu(float a) { return a * sigmoid_rn(a); }
double silu(double a) { return a / (1.0 + std::exp(-a)); }

// Each in f32, rounded after every step, and in f64, rounded once.
template <typename T>
T held_after_silu(T a, T b, T limit) {
  return std::min(silu(a), limit) * std::clamp(b, -limit, limit);
}
template <typename T>
T held_product(T a, T b, T limit) {
  return std::clamp(silu(a) * b, -limit, limit);
}
template <typename T>
T held_on_both_sides(T a, T b, T limit) {
  return silu(std::clamp(a, -limit, limit)) * std::clamp(b, -limit, limit);
}
template <typename T>
T held_after_silu_alone(T a, T b, T limit) {
  return std::min(silu(a), limit) * b;
}
template <typename T>
T as_defined(T a, T b, T limit) {
  return silu(std::min(a, limit)) * std::clamp(b, -limit, limit);
}

struct Limited {
  const char* id;
  const char* phrase;
  float (*in_f32)(float gate, float up, float limit);
  double (*in_f64)(double gate, double up, double limit);
};

constexpr Limited kLimited[] = {
    {"after_silu", "the limit is applied after silu rather than to the gate", held_after_silu,
     held_after_silu},
    {"after_silu_alone",
     "the limit is applied after silu rather than to the gate, and up is not held",
     held_after_silu_alone, held_after_silu_alone},
    {"product", "the limit holds the product of silu and up, and neither of them before it",
     held_product, held_product},
    {"both_sides", "the gate is held between the limit and its negative, as up is",
     held_on_both_sides, held_on_both_sides},
};

/// y of every gate and up by fn(gate, up, limit, weight).
template <typename Fn>
bool activate(const Call& call, NamedTensors& out, Fn fn) {
  const auto y = out.find("y");
  if (y == out.end() || !call.has("x") || y->second.rank() == 0) return false;
  if (call.set.text("halves", "gate_first") != "gate_first") return false;
  const Tensor& x = call.input("x");
  const Index columns = y->second.shape().back();
  if (x.elements() != 2 * y->second.elements() || columns == 0) return false;
  const double limit = call.set.real("limit", HUGE_VAL);
  for (Index i = 0; i < y->second.elements(); ++i) {
    const Index r = i / columns;
    const Index gate = r * 2 * columns + i % columns;
    const float weight = call.has("probs") ? call.input("probs").as<float>()[r] : 1.0f;
    store_wide(y->second, i, fn(wide_value(x, gate), wide_value(x, gate + columns), limit, weight));
  }
  return true;
}

/// Whether the activation is silu(gate) * up, of which alone these rows speak.
bool is_plain(const Call& call) {
  return call.op == "swiglu" && call.set.text("activation", "silu") == "silu" &&
         !call.set.has("alpha") && !call.set.has("up_offset") && !call.set.has("arithmetic") &&
         call.set.text("bf16_steps", "none") == "none";
}

}  // namespace

void add_limit_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (!is_plain(call)) return;
  const auto add = [&](std::string id, std::string phrase, Stage stage, auto fn) {
    Hypothesis h{std::move(id), std::move(phrase), stage};
    h.rewrite = [fn](const Call& c, NamedTensors& out) { return activate(c, out, fn); };
    list.push_back(std::move(h));
  };
  const auto in_f64 = [](double (*of)(double, double, double)) {
    return [of](float a, float b, double limit, float weight) {
      return static_cast<float>(of(a, b, limit) * static_cast<double>(weight));
    };
  };
  for (const Limited& l : kLimited) {
    if (!call.set.has("limit")) break;
    const std::string id = "limit=" + std::string(l.id);
    add(id, l.phrase, Stage::rule, [of = l.in_f32](float a, float b, double limit, float weight) {
      return of(a, b, static_cast<float>(limit)) * weight;
    });
    add(id + "_f64", l.phrase + std::string(", and all of it is computed in f64"), Stage::rule,
        in_f64(l.in_f64));
  }
  add("activation=f64", "the activation is computed in f64 and rounded once", Stage::output,
      in_f64(as_defined));
}

}  // namespace mxo
