// Gated activations that are not silu(gate) * up.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/approximate.h"
#include "formats/exp.h"
#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

float silu(float a) { return a * sigmoid_rn(a); }
float triton_divisor(float a) { return 1.0f + ex2_approx(-a * 0x1.715476p+0f); }

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
    {"up_first", "gate and up are multiplied before sigma is",
     [](float a, float b) { return a * b * sigmoid_rn(a); }},
};

bool activate(const Call& call, NamedTensors& out, float (*of)(float, float)) {
  const auto y = out.find("y");
  if (y == out.end() || !call.has("x")) return false;
  const Tensor& x = call.input("x");
  const Index columns = y->second.shape().back();
  if (x.elements() != 2 * y->second.elements() || columns == 0) return false;
  const auto limit =
      static_cast<float>(call.set.real("limit", std::numeric_limits<double>::infinity()));
  const auto at = [&x](Index i) {
    return x.dtype() == Dtype::f32 ? x.as<float>()[i] : decode(x.as<BF16>()[i]);
  };
  for (Index i = 0; i < y->second.elements(); ++i) {
    const Index r = i / columns;
    const float gate = at(r * 2 * columns + i % columns);
    const float up = at(r * 2 * columns + columns + i % columns);
    float v = of(std::min(gate, limit), std::clamp(up, -limit, limit));
    if (call.has("probs")) v *= call.input("probs").as<float>()[r];
    if (y->second.dtype() == Dtype::bf16) {
      y->second.as<BF16>()[i] = encode<kBF16>(v);
    } else {
      y->second.as<float>()[i] = v;
    }
  }
  return true;
}

}  // namespace

void add_activation_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op != "swiglu") return;
  for (const Activation& a : kActivations) {
    list.push_back(
        {"activation=" + std::string(a.id), a.phrase, Stage::output, [](Call&) { return true; },
         [of = a.of](const Call& c, NamedTensors& out) { return activate(c, out, of); }});
  }
}

}  // namespace mxo
