// An activation that is quantised in one pass: as two calls, and with scales of a part of it.
#include <algorithm>
#include <array>
#include <string_view>

#include "formats/exp.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/steps.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

constexpr std::array<std::string_view, 7> kOfTheGate = {
    "rounding", "limit", "alpha", "up_offset", "halves", "activation", "arithmetic"};

/// The activation of a fused call, or the quantiser that follows it, without its x.
Call part_of_fused(const Call& call, bool quantiser) {
  Call part{quantiser                      ? "quantize"
            : call.op == "swiglu_quantize" ? "swiglu"
                                           : "swiglu_backward",
            {},
            {},
            nullptr};
  for (const auto& [key, value] : call.set.all()) {
    const bool of_gate = std::find(kOfTheGate.begin(), kOfTheGate.end(), key) != kOfTheGate.end();
    if (of_gate != quantiser) part.set.set(key, value);
  }
  for (const auto& [name, tensor] : call.inputs) {
    if ((name == "group_ends") == quantiser) part.inputs.emplace(name, tensor);
  }
  return part;
}

/// Scales of the gate alone, or of up: silu(a), a, b.
bool scale_by(Backend& backend, const Call& call, NamedTensors& out, float (*of)(float, float)) {
  const Tensor& x = call.input("x");
  if (call.set.text("halves", "gate_first") != "gate_first" || x.rank() != 2) return false;
  const Index columns = x.extent(1) / 2;
  Tensor part(Dtype::f32, {x.extent(0), columns});
  for (Index i = 0; i < part.elements(); ++i) {
    const Index gate = i / columns * 2 * columns + i % columns;
    part.as<float>()[i] = of(wide_value(x, gate), wide_value(x, gate + columns));
  }
  Call quantise = part_of_fused(call, true);
  quantise.replace("x", std::move(part));
  Tensor scales = std::move(run_call(backend, quantise).at("scales"));
  if (scales.shape() != out.at("scales").shape()) return false;
  out.at("scales") = std::move(scales);
  return true;
}

}  // namespace

std::vector<StepCall> fused_quantiser_steps(Backend& backend, const Call& call) {
  NamedTensors made = run_call(backend, part_of_fused(call, false));
  const auto wide = made.find(call.op == "swiglu_quantize" ? "y" : "dx");
  if (wide == made.end()) return {};
  StepCall step{part_of_fused(call, true), {{"codes", "codes"}, {"scales", "scales"}}};
  step.call.replace("x", std::move(wide->second));
  return {step};
}

void add_fused_quantiser_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op != "swiglu_quantize" || !call.has("x")) return;
  const auto add_scales_of = [&](const char* id, const char* words, float (*of)(float, float)) {
    Hypothesis h{std::string("scales=") + id, std::string("the scales are those of ") + words,
                 Stage::rule};
    h.run = [of](Backend& b, const Call& c) {
      NamedTensors out = run_call(b, c);
      return scale_by(b, c, out, of) ? std::move(out) : NamedTensors{};
    };
    list.push_back(std::move(h));
  };
  add_scales_of("silu", "silu of the gate alone", [](float a, float) { return a * sigmoid_rn(a); });
  add_scales_of("gate", "the gate alone", [](float a, float) { return a; });
  add_scales_of("up", "up alone", [](float, float b) { return b; });
}

}  // namespace mxo
