// Catalogue entries of routing, SwiGLU and the scaling-aware transpose.
#include "ops/catalogue/families.h"
#include "ops/catalogue/gate_parameters.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"
#include "ops/quantize.h"
#include "ops/route.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu.h"

namespace mxo {
namespace {

/// Extents of an operand whose rank the shapes of the outputs rest on.
std::vector<Index> shape_of(std::string_view op, const Staging& stage, std::string_view name,
                            std::size_t rank) {
  const std::vector<Index> shape = stage.given(name).shape();
  Check(op).that(shape.size() == rank, std::string(name) + ": found rank " +
                                           std::to_string(shape.size()) + ", needs rank " +
                                           std::to_string(rank));
  return shape;
}

NamedTensors call_route(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "route", inputs);
  const std::vector<Index> shape = shape_of("route", stage, "logits", 2);
  const Index k = set.integer("top_k", 1);
  if (k < 1 || k > shape[1]) {
    throw Error(Fault::argument, "route: top_k: found " + std::to_string(k) + ", needs 1 to " +
                                     std::to_string(shape[1]));
  }
  Route op;
  op.logits = stage.floats("logits");
  if (stage.has("bias")) op.bias = stage.floats("bias");
  op.experts = stage.output("experts", Dtype::i32, {shape[0], k});
  op.weights = stage.output("weights", Dtype::f32, {shape[0], k});
  op.tokens_per_expert = stage.output("tokens_per_expert", Dtype::i32, {shape[1]});
  op.score = router_score_named(set.text("score", "softmax"));
  op.groups = set.integer("groups", 1);
  op.limited_groups = set.integer("limited_groups", op.groups);
  op.normalize = set.flag("normalize", true);
  op.scale = static_cast<float>(set.real("scale", 1.0));
  if (set.text("group_score", "two_best") == "best") op.group_score = GroupScore::best;
  if (set.text("other_groups", "excluded") == "zero") op.other_groups = OtherGroups::zero;
  route(stage.ready(), op);
  return stage.finish();
}

Dtype rounding(const Parameters& set) {
  const std::string_view to = set.text("rounding", "none");
  return to == "bf16" ? Dtype::bf16 : to == "f16" ? Dtype::f16 : Dtype::f32;
}

NamedTensors call_swiglu(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "swiglu", inputs);
  const std::vector<Index> shape = shape_of("swiglu", stage, "x", 2);
  Swiglu op;
  op.x = stage.floats("x");
  if (stage.has("probs")) op.probs = stage.floats("probs");
  op.gate = gate_of(set);
  op.y = stage.output("y", rounding(set), {shape[0], shape[1] / halves_of(op.gate)});
  swiglu(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_swiglu_backward(Backend& backend, const NamedViews& inputs,
                                  const Parameters& set) {
  Staging stage(backend, "swiglu_backward", inputs);
  const std::vector<Index> shape = shape_of("swiglu_backward", stage, "x", 2);
  SwigluBackward op;
  op.x = stage.floats("x");
  op.dy = stage.floats("dy");
  op.gate = gate_of(set);
  op.dx = stage.output("dx", rounding(set), shape);
  if (stage.has("probs")) {
    op.probs = stage.floats("probs");
    op.dprobs = stage.output("dprobs", Dtype::f32, {shape[0]});
  }
  swiglu_backward(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_transpose(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "scaling_aware_transpose", inputs);
  const std::vector<Index> shape = shape_of("scaling_aware_transpose", stage, "codes", 2);
  shape_of("scaling_aware_transpose", stage, "group_ends", 1);
  ScalingAwareTranspose op;
  const Dtype format = set.format("format", "e4m3");
  op.codes = stage.codes("codes", format);
  op.scales = stage.floats("scales");
  op.group_ends = stage.indices("group_ends");
  op.codes_out = stage.output("codes", format, {shape[1], shape[0]});
  // The same rows on every backend: the ends are read where the caller has them.
  const Index tiles = row_blocks_of(stage.on_host("group_ends"), kScaledBlock, shape[0]);
  op.scales_out = stage.output("scales", Dtype::f32, {tiles, shape[1]});
  const std::string_view underflow = set.text("underflow", "round");
  if (underflow == "keep_mantissa") op.underflow = Underflow::keep_mantissa;
  if (underflow == "flush") op.underflow = Underflow::flush;
  scaling_aware_transpose(stage.ready(), op);
  return stage.finish();
}

constexpr OperandSpec kRouteIn[] = {{"logits", "[T, E]", "f32, bf16 or f16"},
                                    {"bias", "[E]", "f32", true}};
constexpr OperandSpec kRouteOut[] = {{"experts", "[T, k]", "i32"},
                                     {"weights", "[T, k]", "f32"},
                                     {"tokens_per_expert", "[E]", "i32"}};
constexpr ParameterSpec kRouteSet[] = {
    {"top_k", "1", "experts of a token"},
    {"score", "softmax|sigmoid|softmax_of_chosen|sqrtsoftplus",
     "of a logit; softmax_of_chosen, gpt-oss: logits choose, softmax of the k chosen weighs; "
     "sqrtsoftplus, DeepSeek-V4"},
    {"groups", "1", "groups of experts, of equal size"},
    {"limited_groups", "", "groups that a token may choose from; default: all"},
    {"group_score", "two_best|best",
     "score of a group: the sum of its two best experts, or its best"},
    {"other_groups", "excluded|zero", "experts of the other groups: excluded, or with score 0"},
    {"normalize", "true|false", "divide the weights of a token by their sum"},
    {"scale", "1", "factor of the weights"},
};
constexpr OperandSpec kSwigluIn[] = {{"x", "[R, 2F], or [R, F] without up", "f32, bf16 or f16"},
                                     {"probs", "[R]", "f32", true}};
constexpr OperandSpec kSwigluOut[] = {{"y", "[R, F]", "f32, bf16 or f16"}};
constexpr ParameterSpec kSwigluSet[] = {{"rounding", "none|bf16|f16", "of the result"},
                                        kActivationParameter,
                                        kHalvesParameter,
                                        kStepsParameter,
                                        kAlphaParameter,
                                        kLimitParameter,
                                        kOffsetParameter,
                                        kArithmeticParameter};
constexpr auto kSwigluBackwardSet = without_arithmetic(kSwigluSet);
constexpr OperandSpec kBackwardIn[] = {{"x", "[R, 2F], or [R, F] without up", "f32, bf16 or f16"},
                                       {"dy", "[R, F]", "f32, bf16 or f16"},
                                       {"probs", "[R]", "f32", true}};
constexpr OperandSpec kBackwardOut[] = {{"dx", "[R, 2F]", "f32, bf16 or f16"},
                                        {"dprobs", "[R]", "f32", true}};
constexpr OperandSpec kTransposeIn[] = {{"codes", "[M, K]", "u8 (e4m3)"},
                                        {"scales", "[M, K/128], powers of two", "f32"},
                                        {"group_ends", "[E]", "i32"}};
constexpr OperandSpec kTransposeOut[] = {{"codes", "[K, M]", "u8 (e4m3)"},
                                         {"scales", "[G, K]", "f32"}};
constexpr ParameterSpec kTransposeSet[] = {
    {"format", "e4m3|e4m3fnuz", "format of the codes; e4m3fnuz supports round only"},
    {"underflow", "round|keep_mantissa|flush", "what a code below the normal range becomes"}};

constexpr CatalogueEntry kEntries[] = {
    {"route", "experts and weights of every token", kRouteIn, kRouteOut, kRouteSet, call_route},
    {"swiglu", "gate activation (a * sigma(a)) * b * p, and those of other stacks", kSwigluIn,
     kSwigluOut, kSwigluSet, call_swiglu},
    {"swiglu_backward", "gradients of swiglu", kBackwardIn, kBackwardOut, kSwigluBackwardSet,
     call_swiglu_backward},
    {"scaling_aware_transpose", "row-wise FP8 to column-wise FP8 by moving exponents", kTransposeIn,
     kTransposeOut, kTransposeSet, call_transpose},
};

}  // namespace

std::span<const CatalogueEntry> moe_step_entries() { return kEntries; }

}  // namespace mxo
