// Gated activations that are not silu(gate) * up.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"
#include "formats/erf.h"
#include "formats/exp.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

float silu(float a) { return a * sigmoid_rn(a); }
float by_bf16(float v) { return decode(encode<kBF16>(v)); }
float triton_divisor(float a) { return 1.0f + ex2_approx(-a * 0x1.715476p+0f); }

/// sigma from tanh of half the argument.
float by_tanh(float tanh) { return 0.5f * tanh + 0.5f; }

struct Activation {
  const char* id;
  const char* phrase;
  float (*of)(float gate, float up);
};

constexpr Activation kActivations[] = {
    {"gate_only", "silu of the gate is not multiplied with up",
     [](float a, float) { return silu(a); }},
    {"glu", "the gate is sigma(a) rather than a sigma(a)",
     [](float a, float b) { return sigmoid_rn(a) * b; }},
    {"relu", "the gate is max(a, 0)", [](float a, float b) { return std::max(a, 0.0f) * b; }},
    {"bilinear", "gate and up are multiplied without an activation",
     [](float a, float b) { return a * b; }},
    {"up_plus_1", "up is raised by 1", [](float a, float b) { return silu(a) * (b + 1.0f); }},
    {"alpha", "the gate is a sigma(1.702 a)",
     [](float a, float b) { return a * sigmoid_rn(1.702f * a) * b; }},
    {"alpha_up_plus_1", "the gate is a sigma(1.702 a) and up is raised by 1",
     [](float a, float b) { return a * sigmoid_rn(1.702f * a) * (b + 1.0f); }},
    {"clamped_7", "the gate is cut at 7 and up is clamped to 7",
     [](float a, float b) { return silu(std::min(a, 7.0f)) * std::clamp(b, -7.0f, 7.0f); }},
    {"clamped_10", "the gate is cut at 10 and up is clamped to 10",
     [](float a, float b) { return silu(std::min(a, 10.0f)) * std::clamp(b, -10.0f, 10.0f); }},
    {"silu_of_product", "silu is taken of the product of gate and up",
     [](float a, float b) { return silu(a * b); }},
    {"both", "silu is taken of up, too", [](float a, float b) { return silu(a) * silu(b); }},
    {"triton_sm90", "sigma is Triton's tl.sigmoid on Hopper (arithmetic=triton_sm90)",
     [](float a, float b) { return (a * div_full(1.0f, triton_divisor(a))) * b; }},
    {"triton_sm90_quotient",
     "silu is a / (1 + tl.exp(-a)) by Triton on Hopper (arithmetic=triton_sm90_quotient)",
     [](float a, float b) { return div_full(a, triton_divisor(a)) * b; }},
    {"added", "up is added to silu of the gate rather than multiplied",
     [](float a, float b) { return silu(a) + b; }},
    {"sigma_bf16", "sigma is rounded to bf16 before it is multiplied",
     [](float a, float b) { return a * by_bf16(sigmoid_rn(a)) * b; }},
    {"sigma_silu_bf16", "sigma and silu are each rounded to bf16 before they are multiplied",
     [](float a, float b) { return by_bf16(a * by_bf16(sigmoid_rn(a))) * b; }},
    {"up_first", "gate and up are multiplied before sigma is",
     [](float a, float b) { return a * b * sigmoid_rn(a); }},
    {"sigma_tanh", "sigma is 0.5 tanh(a / 2) + 0.5",
     [](float a, float b) { return a * by_tanh(tanh_rn(0.5f * a)) * b; }},
    {"sigma_tanh_approx", "sigma is 0.5 tanh.approx(a / 2) + 0.5, of Hopper",
     [](float a, float b) { return a * by_tanh(tanh_approx(0.5f * a)) * b; }},
    {"sigma_tanh_bf16", "sigma is 0.5 tanh(a / 2) + 0.5, tanh being rounded to bf16",
     [](float a, float b) { return a * by_tanh(by_bf16(tanh_rn(0.5f * a))) * b; }},
    {"sigma_hard", "sigma is cut off straight lines: clamp(a / 6 + 0.5, 0, 1)",
     [](float a, float b) { return a * std::clamp(a / 6.0f + 0.5f, 0.0f, 1.0f) * b; }},
};

/// Of gate, up and the router's weight.
struct Weighted {
  const char* id;
  const char* phrase;
  float (*of)(float gate, float up, float weight);
};

constexpr Weighted kWeighted[] = {
    {"weighted_gate", "the gate is multiplied with the router weight before silu is taken",
     [](float a, float b, float p) { return silu(a * p) * b; }},
    {"weighted_silu_up", "gate and up are both multiplied with the router weight",
     [](float a, float b, float p) { return silu(a * p) * (b * p); }},
};

/// The half of dx that an activation's derivative gives, of dy, gate and up.
struct Derivative {
  const char* id;
  const char* phrase;
  bool of_gate;
  float (*of)(float dy, float gate, float up);
};

constexpr Derivative kDerivatives[] = {
    {"sigma", "the derivative of silu is taken as sigma(a): a sigma'(a) is left out", true,
     [](float d, float a, float b) { return d * b * sigmoid_rn(a); }},
    {"sigma_prime", "the derivative of silu is taken as sigma'(a)", true,
     [](float d, float a, float b) {
       const float s = sigmoid_rn(a);
       return d * b * (s * (1.0f - s));
     }},
    {"sigma_sign", "the derivative of silu is taken as sigma(a) (1 + a (1 + sigma(a)))", true,
     [](float d, float a, float b) {
       const float s = sigmoid_rn(a);
       return d * b * (s * (1.0f + a * (1.0f + s)));
     }},
    {"sigma_minus", "the derivative of silu is taken as sigma(a) - a sigma'(a)", true,
     [](float d, float a, float b) {
       const float s = sigmoid_rn(a);
       return d * b * (s * (1.0f - a * (1.0f - s)));
     }},
    {"of_silu", "the derivative of silu is taken at silu(a) in place of a", true,
     [](float d, float a, float b) {
       const float t = silu(a);
       const float s = sigmoid_rn(t);
       return d * b * (s * (1.0f + t * (1.0f - s)));
     }},
    {"relu", "the derivative of relu is taken: 1 where the gate is above 0, and 0 elsewhere", true,
     [](float d, float a, float b) { return a > 0.0f ? d * b : 0.0f; }},
    {"gate_without_up", "up is left out of the gradient of the gate", true,
     [](float d, float a, float) {
       const float s = sigmoid_rn(a);
       return d * (s * (1.0f + a * (1.0f - s)));
     }},
    {"up_by_gate", "the gradient of up is dy a rather than dy silu(a)", false,
     [](float d, float a, float) { return d * a; }},
    {"up_by_sigma", "the gradient of up is dy sigma(a) rather than dy silu(a)", false,
     [](float d, float a, float) { return d * sigmoid_rn(a); }},
    {"up_by_relu", "the gradient of up is dy max(a, 0) rather than dy silu(a)", false,
     [](float d, float a, float) { return d * std::max(a, 0.0f); }},
    {"up_alone", "the gradient of up is dy", false, [](float d, float, float) { return d; }},
};

bool derive(const Call& call, NamedTensors& out, const Derivative& rule) {
  const auto dx = out.find("dx");
  if (dx == out.end() || call.has("probs") || call.set.has("limit")) return false;
  const Tensor& x = call.input("x");
  const Tensor& dy = call.input("dy");
  const Index columns = dy.rank() == 0 ? 0 : dy.shape().back();
  if (columns == 0 || dx->second.elements() != 2 * dy.elements()) return false;
  for (Index i = 0; i < dy.elements(); ++i) {
    const Index gate = i / columns * 2 * columns + i % columns;
    const float v = rule.of(wide_value(dy, i), wide_value(x, gate), wide_value(x, gate + columns));
    const Index at = rule.of_gate ? gate : gate + columns;
    store_wide(dx->second, at, v);
  }
  return true;
}

/// dprobs once more times the router weight, which its definition leaves out.
bool weigh_dprobs(const Call& call, NamedTensors& out) {
  const auto dprobs = out.find("dprobs");
  if (dprobs == out.end() || !call.has("probs") || call.input("probs").dtype() != Dtype::f32)
    return false;
  for (Index i = 0; i < dprobs->second.elements(); ++i)
    dprobs->second.as<float>()[i] *= call.input("probs").as<float>()[i];
  return true;
}

/// dprobs added up in bf16, of dy times y or of both rounded to bf16 on the way.
bool sum_dprobs_in_bf16(const Call& call, NamedTensors& out, bool rounded) {
  const auto dprobs = out.find("dprobs");
  if (dprobs == out.end() || call.set.has("limit") || call.set.has("alpha")) return false;
  const Tensor& x = call.input("x");
  const Tensor& dy = call.input("dy");
  const Index columns = dy.rank() == 0 ? 0 : dy.shape().back();
  if (columns == 0 || x.elements() != 2 * dy.elements()) return false;
  for (Index r = 0; r < dprobs->second.elements(); ++r) {
    float sum = 0.0f;
    for (Index c = 0; c < columns; ++c) {
      const Index gate = r * 2 * columns + c;
      float y = silu(wide_value(x, gate)) * wide_value(x, gate + columns);
      if (rounded) y = by_bf16(y);
      const float term = wide_value(dy, r * columns + c) * y;
      sum = by_bf16(sum + (rounded ? by_bf16(term) : term));
    }
    dprobs->second.as<float>()[r] = sum;
  }
  return true;
}

bool activate(const Call& call, NamedTensors& out,
              const std::function<float(float, float, float)>& of) {
  const auto y = out.find("y");
  if (y == out.end() || !call.has("x")) return false;
  const Tensor& x = call.input("x");
  const Index columns = y->second.shape().back();
  if (x.elements() != 2 * y->second.elements() || columns == 0) return false;
  const auto limit =
      static_cast<float>(call.set.real("limit", std::numeric_limits<double>::infinity()));
  for (Index i = 0; i < y->second.elements(); ++i) {
    const Index r = i / columns;
    const float gate = wide_value(x, r * 2 * columns + i % columns);
    const float up = wide_value(x, r * 2 * columns + columns + i % columns);
    const float weight = call.has("probs") ? call.input("probs").as<float>()[r] : 1.0f;
    const float v = of(std::min(gate, limit), std::clamp(up, -limit, limit), weight);
    store_wide(y->second, i, v);
  }
  return true;
}

/// Rows of an operand from the row `by` after each; at the ends their own.
bool shift_rows(Call& call, const std::string& name, Index by) {
  const Tensor& given = call.input(name);
  if (given.rank() != 2 || given.extent(0) < 2) return false;
  std::vector<Index> kept;
  for (Index r = 0; r < given.extent(0); ++r) {
    kept.push_back(std::clamp<Index>(r + by, 0, given.extent(0) - 1));
  }
  call.replace(name, gathered(given, 0, kept));
  return true;
}

/// Gradients made of rows of x and dy that do not belong together.
void add_shifted_rows(std::vector<Hypothesis>& list) {
  for (const std::string name : {"dy", "x"}) {
    for (const Index by : {-1, 1}) {
      list.push_back({"rows=shifted",
                      "rows of " + name + " are read one " +
                          (by < 0 ? "late, the first as it is" : "early, the last as it is"),
                      Stage::input, [name, by](Call& c) { return shift_rows(c, name, by); }});
    }
  }
}

/// Router weights of the row `by` after each; of the rows at the end their own.
bool shift_weights(Call& call, Index by) {
  if (!call.has("probs") || call.input("probs").dtype() != Dtype::f32) return false;
  const Tensor& given = call.input("probs");
  Tensor seen = given;
  for (Index i = 0; i < given.elements(); ++i) {
    if (i + by < 0 || i + by >= given.elements()) continue;
    seen.as<float>()[i] = given.as<float>()[i + by];
  }
  call.replace("probs", std::move(seen));
  return true;
}

}  // namespace

void add_activation_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const auto add = [&](const std::string& id, const char* phrase, auto rewrite,
                       Stage stage = Stage::rule) {
    list.push_back({id, phrase, stage, [](Call&) { return true; }, rewrite});
  };
  const bool backward = call.has("x") && call.has("dy");
  if (backward && call.op.starts_with("swiglu")) add_shifted_rows(list);
  if (backward && call.op == "swiglu_backward") {
    add("activation=relu", "the gate is max(a, 0), in both halves of the gradient",
        [](const Call& c, NamedTensors& out) {
          const auto rule = [](std::string_view id) {
            return std::find_if(std::begin(kDerivatives), std::end(kDerivatives),
                                [id](const Derivative& d) { return id == d.id; });
          };
          return derive(c, out, *rule("relu")) && derive(c, out, *rule("up_by_relu"));
        });
    add("dprobs=weighed", "dprobs is multiplied with the router weight", weigh_dprobs);
    for (const bool rounded : {false, true}) {
      add("dprobs=bf16",
          rounded ? "dprobs is added up in bf16, of y and products that are rounded to bf16"
                  : "dprobs is added up in bf16",
          [rounded](const Call& c, NamedTensors& out) {
            return sum_dprobs_in_bf16(c, out, rounded);
          });
    }
    for (const Derivative& d : kDerivatives) {
      add("derivative=" + std::string(d.id), d.phrase,
          [&d](const Call& c, NamedTensors& out) { return derive(c, out, d); });
    }
  }
  for (const Index by : {-1, 1}) {
    list.push_back(
        {"weights=other_row",
         std::string("rows take the router weight of the row ") + (by < 0 ? "before" : "after"),
         Stage::input, [by](Call& c) { return shift_weights(c, by); }});
  }
  // These rows know no parameter but the limit.
  const bool plain = call.set.real("alpha", 1.0) == 1.0 && call.set.real("up_offset", 0.0) == 0.0 &&
                     call.set.text("halves", "gate_first") == "gate_first" &&
                     call.set.text("activation", "silu") == "silu";
  if (call.op != "swiglu" || !plain) return;
  for (const Activation& a : kActivations) {
    // Another arithmetic is that of every element, or of none.
    const std::string_view id = a.id;
    const bool same_function =
        id.starts_with("triton") || id.starts_with("sigma_") || id == "up_first";
    add(
        "activation=" + std::string(a.id), a.phrase,
        [of = a.of](const Call& c, NamedTensors& out) {
          return activate(c, out, [of](float g, float u, float p) { return of(g, u) * p; });
        },
        same_function ? Stage::output : Stage::rule);
  }
  if (!call.has("probs")) return;
  for (const Weighted& w : kWeighted) {
    add("weights=" + std::string(w.id), w.phrase,
        [of = w.of](const Call& c, NamedTensors& out) { return activate(c, out, of); });
  }
}

}  // namespace mxo
