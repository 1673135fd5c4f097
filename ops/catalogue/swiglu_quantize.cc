// Catalogue entries of swiglu_quantize and its gradients.
#include "ops/swiglu_quantize.h"

#include "ops/catalogue/families.h"
#include "ops/catalogue/gate_parameters.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"

namespace mxo {
namespace {

Dtype rounding(const Parameters& set) {
  const std::string_view to = set.text("rounding", "none");
  return to == "bf16" ? Dtype::bf16 : to == "f16" ? Dtype::f16 : Dtype::f32;
}

/// Rows and columns of x.
std::vector<Index> shape_of_x(std::string_view op, const Staging& stage) {
  const std::vector<Index> shape = stage.given("x").shape();
  Check(op).that(shape.size() == 2,
                 "x: found rank " + std::to_string(shape.size()) + ", needs rank 2");
  return shape;
}

/// The second step: its outputs and its rule.
template <typename Op>
void quantize_into(Op& op, Staging& stage, const Parameters& set, std::string_view name,
                   const std::vector<Index>& shape) {
  const ScaleChoice choice = scale_choice(name, set);
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  op.to = scaled_outputs(name, stage, set, shape, choice);
  op.rule = choice.rule;
  op.rule.element.overflow = overflow_of(name, set, choice.rule.element.overflow);
}

NamedTensors call_forward(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  constexpr std::string_view kName = "swiglu_quantize";
  Staging stage(backend, kName, inputs);
  const std::vector<Index> shape = shape_of_x(kName, stage);
  SwigluQuantize op;
  op.x = stage.floats("x");
  if (stage.has("probs")) op.probs = stage.floats("probs");
  op.rounding = rounding(set);
  op.gate = gate_of(set);
  quantize_into(op, stage, set, kName, {shape[0], shape[1] / halves_of(op.gate)});
  swiglu_quantize(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_backward(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  constexpr std::string_view kName = "swiglu_quantize_backward";
  Staging stage(backend, kName, inputs);
  const std::vector<Index> shape = shape_of_x(kName, stage);
  SwigluQuantizeBackward op;
  op.x = stage.floats("x");
  op.dy = stage.floats("dy");
  op.rounding = rounding(set);
  op.gate = gate_of(set);
  quantize_into(op, stage, set, kName, shape);
  if (stage.has("probs")) {
    op.probs = stage.floats("probs");
    op.dprobs = stage.output("dprobs", Dtype::f32, {shape[0]});
  }
  swiglu_quantize_backward(stage.ready(), op);
  return stage.finish();
}

constexpr OperandSpec kX{"x", "[R, 2F], or [R, F] without up", "f32, bf16 or f16"};
constexpr OperandSpec kProbs{"probs", "[R]", "f32", true};
constexpr OperandSpec kEnds{"group_ends", "[E], blocks of rows start again", "i32", true};
constexpr OperandSpec kForwardIn[] = {kX, kProbs, kEnds};
constexpr OperandSpec kForwardOut[] = {{"codes", "[R, F]", "u8"},
                                       {"scales", "[ceil(R/r), ceil(F/c)]", "u8 or f32"}};
constexpr OperandSpec kBackwardIn[] = {kX, {"dy", "[R, F]", "f32, bf16 or f16"}, kProbs, kEnds};
constexpr OperandSpec kBackwardOut[] = {{"codes", "[R, 2F]", "u8"},
                                        {"scales", "[ceil(R/r), ceil(2F/c)]", "u8 or f32"},
                                        {"dprobs", "[R]", "f32", true}};
constexpr ParameterSpec kSet[] = {
    {"rounding", "none|bf16|f16", "before quantising"},
    {"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz", "of codes"},
    kBlockParameter,
    kRuleParameter,
    kScaleParameter,
    kModeParameter,
    kPowerParameter,
    kEpsilonParameter,
    kScaleMaxParameter,
    kOverflowParameter,
    {"transpose", "false|true", "blocks of more than one row: axes exchanged"},
    kActivationParameter,
    kHalvesParameter,
    kStepsParameter,
    kAlphaParameter,
    kLimitParameter,
    kOffsetParameter,
    kArithmeticParameter,
};

constexpr CatalogueEntry kEntries[] = {
    {"swiglu_quantize", "swiglu and quantize in one pass", kForwardIn, kForwardOut, kSet,
     call_forward},
    {"swiglu_quantize_backward", "gradients of swiglu, quantised in the same pass", kBackwardIn,
     kBackwardOut, without_arithmetic(kSet), call_backward},
};

}  // namespace

std::span<const CatalogueEntry> swiglu_quantize_entries() { return kEntries; }

}  // namespace mxo
