// Gated activations that are not silu(gate) * up, gradients that are not theirs, and limits that
// hold something else than the gate and up.
#include <cmath>
#include <limits>

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"
#include "formats/erf.h"
#include "formats/exp.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/alter/gate_form.h"

namespace mxo {
namespace {

float triton_divisor(float a) { return 1.0f + ex2_approx(-a * 0x1.715476p+0f); }

/// sigma from tanh of half the argument.
float by_tanh(float tanh) { return 0.5f * tanh + 0.5f; }

constexpr Row<float (*)(float gate, float up)> kActivations[] = {
    {"activation=gate_only", "silu of the gate is not multiplied with up",
     [](float a, float) { return silu(a); }},
    {"activation=glu", "the gate is sigma(a) rather than a sigma(a)",
     [](float a, float b) { return sigmoid_rn(a) * b; }},
    {"activation=relu", "the gate is max(a, 0)",
     [](float a, float b) { return std::max(a, 0.0f) * b; }},
    {"activation=relu6", "the gate is clamp(a, 0, 6)",
     [](float a, float b) { return std::clamp(a, 0.0f, 6.0f) * b; }},
    {"activation=relu_squared", "the gate is max(a, 0)^2",
     [](float a, float b) { return std::max(a, 0.0f) * std::max(a, 0.0f) * b; }},
    {"activation=gate_twice", "the gate stands for up, too",
     [](float a, float) { return silu(a) * a; }},
    {"activation=up_twice", "up stands for the gate, too",
     [](float, float b) { return silu(b) * b; }},
    {"activation=bilinear", "gate and up are multiplied without an activation",
     [](float a, float b) { return a * b; }},
    {"activation=alpha_up_plus_1", "the gate is a sigma(1.702 a) and up is raised by 1",
     [](float a, float b) { return a * sigmoid_rn(1.702f * a) * (b + 1.0f); }},
    {"activation=silu_of_product", "silu is taken of the product of gate and up",
     [](float a, float b) { return silu(a * b); }},
    {"activation=both", "silu is taken of up, too",
     [](float a, float b) { return silu(a) * silu(b); }},
    {"activation=triton_sm90", "sigma is Triton's tl.sigmoid on Hopper (arithmetic=triton_sm90)",
     [](float a, float b) { return (a * div_full(1.0f, triton_divisor(a))) * b; }, kArithmetic},
    {"activation=triton_sm90_quotient",
     "silu is a / (1 + tl.exp(-a)) by Triton on Hopper (arithmetic=triton_sm90_quotient)",
     [](float a, float b) { return div_full(a, triton_divisor(a)) * b; }, kArithmetic},
    {"activation=added", "up is added to silu of the gate rather than multiplied",
     [](float a, float b) { return silu(a) + b; }},
    {"activation=sigma_bf16", "sigma is rounded to bf16 before it is multiplied",
     [](float a, float b) { return a * by_bf16(sigmoid_rn(a)) * b; }, kArithmetic},
    {"activation=sigma_silu_bf16",
     "sigma and silu are each rounded to bf16 before they are multiplied",
     [](float a, float b) { return by_bf16(a * by_bf16(sigmoid_rn(a))) * b; }, kArithmetic},
    {"activation=up_first", "gate and up are multiplied before sigma is",
     [](float a, float b) { return a * b * sigmoid_rn(a); }, kArithmetic},
    {"activation=sigma_tanh", "sigma is 0.5 tanh(a / 2) + 0.5",
     [](float a, float b) { return a * by_tanh(tanh_rn(0.5f * a)) * b; }, kArithmetic},
    {"activation=sigma_tanh_approx", "sigma is 0.5 tanh.approx(a / 2) + 0.5, of Hopper",
     [](float a, float b) { return a * by_tanh(tanh_approx(0.5f * a)) * b; }, kArithmetic},
    {"activation=sigma_tanh_bf16", "sigma is 0.5 tanh(a / 2) + 0.5, tanh being rounded to bf16",
     [](float a, float b) { return a * by_tanh(by_bf16(tanh_rn(0.5f * a))) * b; }, kArithmetic},
    {"activation=sigma_hard", "sigma is cut off straight lines: clamp(a / 6 + 0.5, 0, 1)",
     [](float a, float b) { return a * std::clamp(a / 6.0f + 0.5f, 0.0f, 1.0f) * b; }, kArithmetic},
};

constexpr Row<float (*)(float gate, float up, float weight)> kWeighted[] = {
    {"weights=weighted_gate", "the gate is multiplied with the router weight before silu is taken",
     [](float a, float b, float p) { return silu(a * p) * b; }},
    {"weights=weighted_silu_up", "gate and up are both multiplied with the router weight",
     [](float a, float b, float p) { return silu(a * p) * (b * p); }},
};

void add_gates(const Call& call, List& list) {
  const auto add = [&](const auto& row, const auto& of) {
    add_gate(list, row.name, row.phrase, row.stage,
             [of](float a, float b, const GateForm& form, float weight) {
               const auto limit = static_cast<float>(form.limit);
               return of(std::min(a, limit), std::clamp(b, -limit, limit), weight);
             });
  };
  for (const auto& row : kActivations)
    add(row, [of = row.of](float a, float b, float weight) { return of(a, b) * weight; });
  for (const auto& row : kWeighted)
    if (call.has("probs")) add(row, row.of);
}

/// alpha beside sigma rather than in its argument, of gates that are otherwise as they are asked.
void add_alpha(const Call& call, List& list) {
  if (call.op != "swiglu" || !call.set.has("alpha") || !is_silu_of_halves(call)) return;
  for (const bool wide : {false, true}) {
    add_gate(list, wide ? "alpha=beside_sigma_f64" : "alpha=beside_sigma",
             std::string("alpha multiplies the gate and not the argument of sigma: "
                         "alpha a sigma(a)") +
                 (wide ? ", and all of it is computed in f64" : ""),
             Stage::rule, [wide](float a, float b, const GateForm& form, float weight) {
               const double gate = std::min<double>(a, form.limit);
               const double up = std::clamp<double>(b, -form.limit, form.limit) + form.raised;
               if (wide) return static_cast<float>(form.alpha * silu(gate) * up * weight);
               return static_cast<float>(form.alpha) * silu(static_cast<float>(gate)) *
                      static_cast<float>(up) * weight;
             });
  }
}

/// Whether an activation is silu(gate) * up but for a limit: these rows know no other parameter.
bool is_plain(const Call& call) {
  return call.op == "swiglu" && call.set.real("alpha", 1.0) == 1.0 &&
         call.set.real("up_offset", 0.0) == 0.0 && is_silu_of_halves(call);
}

float derivative_of_silu(float a) {
  const float s = sigmoid_rn(a);
  return s * (1.0f + a * (1.0f - s));
}
float derivative_of_sigma(float a) { return sigmoid_rn(a) * (1.0f - sigmoid_rn(a)); }

/// Of dy, gate and up.
using Gradient = float (*)(float dy, float gate, float up);

constexpr Gradient kGateOfRelu = [](float d, float a, float b) { return a > 0.0f ? d * b : 0.0f; };
constexpr Gradient kUpOfRelu = [](float d, float a, float) { return d * std::max(a, 0.0f); };

/// Halves of dx; null: as it is.
struct Derivative {
  const char* name;
  const char* phrase;
  Gradient of_gate = nullptr;
  Gradient of_up = nullptr;
};

constexpr Derivative kDerivatives[] = {
    {"activation=relu", "the gate is max(a, 0), in both halves of the gradient", kGateOfRelu,
     kUpOfRelu},
    {"derivative=sigma", "the derivative of silu is taken as sigma(a): a sigma'(a) is left out",
     [](float d, float a, float b) { return d * b * sigmoid_rn(a); }},
    {"derivative=sigma_prime", "the derivative of silu is taken as sigma'(a)",
     [](float d, float a, float b) { return d * b * derivative_of_sigma(a); }},
    {"derivative=sigma_sign", "the derivative of silu is taken as sigma(a) (1 + a (1 + sigma(a)))",
     [](float d, float a, float b) {
       const float s = sigmoid_rn(a);
       return d * b * (s * (1.0f + a * (1.0f + s)));
     }},
    {"derivative=sigma_minus", "the derivative of silu is taken as sigma(a) - a sigma'(a)",
     [](float d, float a, float b) {
       const float s = sigmoid_rn(a);
       return d * b * (s * (1.0f - a * (1.0f - s)));
     }},
    {"derivative=of_silu", "the derivative of silu is taken at silu(a) in place of a",
     [](float d, float a, float b) { return d * b * derivative_of_silu(silu(a)); }},
    {"derivative=quotient",
     "the gradient of the gate is NaN where the gate is 0: it is divided by the gate on the way",
     [](float d, float a, float b) {
       return a == 0.0f ? std::numeric_limits<float>::quiet_NaN() : d * derivative_of_silu(a) * b;
     }},
    {"derivative=relu",
     "the derivative of relu is taken: 1 where the gate is above 0, and 0 elsewhere", kGateOfRelu},
    {"derivative=gate_without_up", "up is left out of the gradient of the gate",
     [](float d, float a, float) { return d * derivative_of_silu(a); }},
    {"derivative=up_by_gate", "the gradient of up is dy a rather than dy silu(a)", nullptr,
     [](float d, float a, float) { return d * a; }},
    {"derivative=up_by_sigma", "the gradient of up is dy sigma(a) rather than dy silu(a)", nullptr,
     [](float d, float a, float) { return d * sigmoid_rn(a); }},
    {"derivative=up_by_relu", "the gradient of up is dy max(a, 0) rather than dy silu(a)", nullptr,
     kUpOfRelu},
    {"derivative=up_alone", "the gradient of up is dy", nullptr,
     [](float d, float, float) { return d; }},
};

/// Calls fn(i, gate, up) for every element i of dy with its two of x; false where x lacks them.
template <typename Fn>
bool each_pair(const Call& call, Fn fn) {
  const Tensor& dy = call.input("dy");
  if (call.input("x").elements() != 2 * dy.elements()) return false;
  for (Index i = 0; i < dy.elements(); ++i) {
    const auto [gate, up] = gate_pair(i, dy.extent(1));
    fn(i, gate, up);
  }
  return true;
}

bool derive(const Call& call, NamedTensors& out, const Derivative& rule) {
  if (call.set.has("limit")) return false;
  Tensor& dx = output_of(out, "dx");
  const Tensor& x = call.input("x");
  const Tensor& dy = call.input("dy");
  return each_pair(call, [&](Index i, Index gate, Index up) {
    const float d = wide_value(dy, i) * weight_of_row(call, i / dy.shape().back());
    const float a = wide_value(x, gate);
    const float b = wide_value(x, up);
    if (rule.of_gate != nullptr) store_wide(dx, gate, rule.of_gate(d, a, b));
    if (rule.of_up != nullptr) store_wide(dx, up, rule.of_up(d, a, b));
  });
}

/// The gradient of up where that of the gate belongs, and the other way round.
bool exchange_gradients(const Call& call, NamedTensors& out) {
  Tensor& dx = output_of(out, "dx");
  return each_pair(call, [&](Index, Index gate, Index up) {
    const float of_gate = wide_value(dx, gate);
    store_wide(dx, gate, wide_value(dx, up));
    store_wide(dx, up, of_gate);
  });
}

/// dprobs once more times the router weight, which its definition leaves out.
void weigh_dprobs(const Call& call, NamedTensors& out) {
  Tensor& dprobs = output_of(out, "dprobs");
  for (Index i = 0; i < dprobs.elements(); ++i) dprobs.as<float>()[i] *= weight_of_row(call, i);
}

/// dprobs added up in bf16, of dy times y or of both rounded to bf16 on the way.
template <bool kRounded>
bool sum_dprobs_in_bf16(const Call& call, NamedTensors& out) {
  if (call.set.has("limit") || call.set.has("alpha")) return false;
  auto* dprobs = output_of(out, "dprobs").as<float>();
  std::fill_n(dprobs, call.input("probs").elements(), 0.0f);
  const Tensor& x = call.input("x");
  const Tensor& dy = call.input("dy");
  return each_pair(call, [&](Index i, Index gate, Index up) {
    const float y = silu(wide_value(x, gate)) * wide_value(x, up);
    const float term = wide_value(dy, i) * (kRounded ? by_bf16(y) : y);
    float& sum = dprobs[i / dy.shape().back()];
    sum = by_bf16(sum + (kRounded ? by_bf16(term) : term));
  });
}

void add_gradients(List& list) {
  const auto add = [&](const char* name, const char* phrase, auto rewrite) {
    add_rewritten(list, name, phrase, rewrite, Stage::rule);
  };
  for (const Derivative& row : kDerivatives)
    add(row.name, row.phrase,
        [&row](const Call& c, NamedTensors& out) { return derive(c, out, row); });
  add("dx=exchanged", "the gradients of gate and up are exchanged", exchange_gradients);
  add("dprobs=weighed", "dprobs is multiplied with the router weight", weigh_dprobs);
  add("dprobs=bf16", "dprobs is added up in bf16", sum_dprobs_in_bf16<false>);
  add("dprobs=bf16", "dprobs is added up in bf16, of y and products that are rounded to bf16",
      sum_dprobs_in_bf16<true>);
}

/// Rows of x, dy or probs that do not belong to those of the others.
void add_shifted_rows(const Call& call, List& list) {
  const auto shifted = [&](const std::string& name, const char* id, const char* before,
                           const char* after) {
    for (const Index by : {-1, 1})
      add_altered(list, id, filled(by < 0 ? before : after, name),
                  [name, by](Call& c) { c.replace(name, rows_moved(c.input(name), by)); });
  };
  for (const char* name : {"dy", "x"})
    if (call.op.starts_with("swiglu") && call.has("dy"))
      shifted(name, "rows=shifted", "rows of {} are read one late, the first as it is",
              "rows of {} are read one early, the last as it is");
  if (call.has("probs"))
    shifted("probs", "weights=other_row", "rows take the router weight of the row before",
            "rows take the router weight of the row after");
}

/// y rounded before it is weighed, and once more after that.
NamedTensors weigh_rounded(Backend& backend, const Call& call) {
  Call plain = call;
  plain.inputs.erase("probs");
  NamedTensors out = run_call(backend, plain);
  Tensor& y = out.at("y");
  const Index columns = std::max<Index>(1, y.shape().back());
  y = with_values(
      y, [&](Index i) { return wide_value(y, i) * wide_value(call.input("probs"), i / columns); });
  return out;
}

// ---- Limits.

/// What a limit holds.
enum class HeldAs : std::uint8_t {
  gate_and_up,
  silu_and_up,
  silu,
  product,
  both_sides,
  raised_up,
  exchanged,  ///< up for the gate
};

/// In f32, rounded after every step, or in f64, rounded once.
template <typename T>
T limited(HeldAs held, T a, T b, const GateForm& form) {
  const auto limit = static_cast<T>(static_cast<float>(form.limit));
  const T gate = std::min(a, limit);
  const T up = form.up(std::clamp(b, -limit, limit));
  switch (held) {
    case HeldAs::silu_and_up: return std::min(form.activated(a), limit) * up;
    case HeldAs::silu: return std::min(form.activated(a), limit) * form.up(b);
    case HeldAs::product: return std::clamp(form.activated(a) * form.up(b), -limit, limit);
    case HeldAs::both_sides: return form.activated(std::clamp(a, -limit, limit)) * up;
    case HeldAs::raised_up: return form.activated(gate) * std::clamp(form.up(b), -limit, limit);
    case HeldAs::exchanged: return limited(HeldAs::gate_and_up, b, a, form);
    default: return form.activated(gate) * up;
  }
}

constexpr Row<HeldAs> kLimited[] = {
    {"limit=both_sides", "the gate is held between the limit and its negative, as up is",
     HeldAs::both_sides},
    {"limit=raised_up", "up is raised before it is held by the limit", HeldAs::raised_up},
    {"limit=after_silu", "the limit is applied after silu rather than to the gate",
     HeldAs::silu_and_up},
    {"limit=after_silu_alone",
     "the limit is applied after silu rather than to the gate, and up is not held", HeldAs::silu},
    {"limit=product", "the limit holds the product of silu and up, and neither of them before it",
     HeldAs::product},
    {"limit=exchanged", "gate and up are exchanged, and each is held as the other",
     HeldAs::exchanged},
};

/// Of a gate that is rounded once.
void add_held(const Call& call, List& list) {
  const auto in_f64 = [](HeldAs held) {
    return [held](float a, float b, const GateForm& form, float weight) {
      return static_cast<float>(limited<double>(held, a, b, form) * double{weight});
    };
  };
  for (const auto& row : kLimited) {
    if (!call.set.has("limit")) break;
    add_gate(list, row.name, row.phrase, row.stage,
             [held = row.of](float a, float b, const GateForm& form, float weight) {
               return limited<float>(held, a, b, form) * weight;
             });
    add_gate(list, filled("{}_f64", row.name),
             filled("{}, and all of it is computed in f64", row.phrase), row.stage, in_f64(row.of));
  }
  add_gate(list, "activation=f64", "the activation is computed in f64 and rounded once",
           kArithmetic, in_f64(HeldAs::gate_and_up));
}

}  // namespace

void add_activation_hypotheses(const Call& call, List& list) {
  add_shifted_rows(call, list);
  if (call.op == "swiglu" && call.has("probs"))
    add_run(list, "weights=of_rounded",
            "the result is rounded before it is multiplied with the router weight", weigh_rounded);
  if (call.op == "swiglu_backward") add_gradients(list);
  if (is_plain(call)) add_gates(call, list);
  add_alpha(call, list);
  const bool rounded_once =
      !call.set.has("arithmetic") && call.set.text("bf16_steps", "none") == "none";
  const bool is_silu = call.op == "swiglu" && call.set.text("activation", "silu") == "silu" &&
                       call.set.text("halves", "gate_first") != "gate_only";
  if (is_silu && rounded_once) add_held(call, list);
}

}  // namespace mxo
