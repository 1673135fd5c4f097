// Catalogue entries of quantize and dequantize.
#include "ops/quantize.h"

#include "formats/aliases.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/product_blocks.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/checked.h"
#include "ops/delayed_scale.h"

namespace mxo {
namespace {

/// quantize with row-major scales, and these in the layout that the call names.
NamedTensors quantize_and_lay_out(Backend& backend, const NamedViews& inputs, const Parameters& set,
                                  std::string_view layout) {
  if (inputs.result("scales") != nullptr) {
    throw Error(Fault::argument,
                "quantize: scales: found memory to write to, needs row-major or "
                "blocked scales for that");
  }
  const ScaleChoice choice = scale_choice("quantize", set);
  const bool powers = choice.scale == Dtype::e8m0 || choice.rule.f32.power_of_2 != PowerOfTwo::none;
  if (layout == "packed_ue8m0" && !powers && !inputs.contains("given")) {
    throw Error(Fault::argument,
                "quantize: scale_layout: packed_ue8m0 keeps exponents alone, needs e8m0 scales or "
                "power_of_2=up");
  }
  auto rest = set.all();
  rest.erase("scale_layout");
  NamedTensors out = call_operator(backend, "quantize", inputs, Parameters(std::move(rest)));
  Tensor& scales = out.at("scales");
  Parameters how;
  const bool experts = layout == "blocked" && scales.shape().size() == 3;
  how.set("layout", experts ? "per_group_3d" : layout);
  scales = call_operator(backend, "swizzle_scales", {{"scales", scales}}, how).at("blocked");
  return out;
}

NamedTensors call_quantize(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  const std::string_view layout = set.text("scale_layout", "row_major");
  const bool turns = set.flag("transpose", false);
  if (layout != "row_major" && (layout != "blocked" || turns)) {
    return quantize_and_lay_out(backend, inputs, set, layout);
  }
  Staging stage(backend, "quantize", inputs);
  const ScaleChoice choice = scale_choice("quantize", set);
  Quantize op;
  op.x = stage.floats("x");
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  op.to = scaled_outputs("quantize", stage, set, stage.given("x").shape(), choice);
  op.rule = choice.rule;
  if (stage.has("given")) op.given = stage.floats("given");
  op.rule.element.rounding = rounding_of("quantize", set, choice.rule.element.rounding);
  op.rule.element.overflow = overflow_of("quantize", set, choice.rule.element.overflow);
  quantize(stage.ready(), op);
  return stage.finish();
}

/// Scales as the type that the call names, or as the file has them.
Operand scales_of(Staging& stage, const Parameters& set) {
  const Dtype held = stage.given("scales").dtype();
  const bool bytes = held == Dtype::u8 || held == Dtype::e8m0;
  std::string_view type = set.text("scale", bytes ? "e8m0" : "f32");
  if (const std::string_view here = canonical_name(Word::format, type); !here.empty()) type = here;
  if (type != "e8m0" && type != "f32") {
    throw Error(Fault::argument,
                "dequantize: scale=" + std::string(type) + ": needs one of e8m0|f32");
  }
  return type == "e8m0" ? stage.scales("scales") : stage.floats("scales");
}

NamedTensors call_dequantize(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "dequantize", inputs);
  Dequantize op;
  op.from.codes = stage.codes("codes", set.format("format", "e4m3"));
  op.from.scales = scales_of(stage, set);
  std::vector<Index> shape = stage.given("codes").shape();
  const bool turned = set.flag("transpose", false);
  if (set.has("block") || turned || stage.has("group_ends") || shape.size() < 2) {
    op.from.block = block_named("dequantize", set.text("block", "1x32"));
  } else {
    op.from.block = block_of_scales("dequantize", "", "block", set, {shape, {}}, op.from.scales);
  }
  if (turned && op.from.codes.rank >= 2 && op.from.scales.rank >= 2) {
    op.from.codes = transposed(op.from.codes);
    op.from.scales = transposed(op.from.scales);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  }
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  op.x = stage.output("x", set.format("out", "bf16"), shape);
  dequantize(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_delayed_scale(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "delayed_scale", inputs);
  DelayedScale op;
  if (stage.has("x")) op.x = stage.floats("x");
  op.history = stage.floats("history");
  op.scale = stage.floats("scale");
  op.format = set.format("format", "e4m3");
  if (set.text("amax", "max") == "most_recent") op.choice = AmaxChoice::most_recent;
  const Index margin = set.integer("margin", 0);
  if (margin < -64 || margin > 64) {
    throw Error(Fault::argument, "delayed_scale: margin: found " + std::to_string(margin) +
                                     ", needs a number from -64 to 64");
  }
  op.margin = static_cast<int>(margin);
  op.next_history = stage.output("next_history", Dtype::f32, stage.given("history").shape());
  op.next_scale = stage.output("next_scale", Dtype::f32, {1});
  delayed_scale(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kFormat{"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz", "the element format"};
constexpr ParameterSpec kTranspose{"transpose", "false|true",
                                   "blocks of more than one row: last axes exchanged"};

constexpr OperandSpec kEnds{"group_ends", "[E], blocks of rows start again", "i32", true};
constexpr OperandSpec kQuantizeIn[] = {
    {"x", "[.., R, K]", "f32, bf16 or f16"},
    kEnds,
    {"given",
     "[.., ceil(R/r), ceil(K/c)], static scales: x is multiplied by them under the rules "
     "torchao, torchao_multiplier, te, flow, vllm_scaled, vllm_scaled_f32, fbgemm, fbgemm_triton "
     "and, for RxK, sglang; divided under the others",
     "f32", true}};
constexpr OperandSpec kQuantizeOut[] = {{"codes", "[.., R, K]", "u8"},
                                        {"scales", "[.., ceil(R/r), ceil(K/c)]", "u8 or f32"}};
constexpr ParameterSpec kQuantizeSet[] = {
    kFormat,
    kBlockParameter,
    kRuleParameter,
    kScaleParameter,
    kModeParameter,
    kPowerParameter,
    kEpsilonParameter,
    kScaleMaxParameter,
    kRoundingParameter,
    kOverflowParameter,
    kTranspose,
    {"scale_layout", "row_major|blocked|mn_major_tma|cublas_1x128|packed_ue8m0|tiles_8x4",
     "blocked: 128x4 tiles, one matrix per expert; others as swizzle_scales"},
};
constexpr OperandSpec kDequantizeIn[] = {kQuantizeOut[0], kQuantizeOut[1], kEnds};
constexpr OperandSpec kDequantizeOut[] = {{"x", "[.., R, K]", "bf16 or f32"}};
constexpr ParameterSpec kDequantizeSet[] = {
    kFormat,
    {"block", "1x32", "rows x columns that share a scale; default: from the shape of scales"},
    kScaleParameter,
    kTranspose,
    {"out", "bf16|f32", "type of the result"}};

constexpr OperandSpec kDelayedIn[] = {{"x", "[.., R, K]", "f32, bf16 or f16", true},
                                      {"history", "[H], newest first, then oldest on", "f32"},
                                      {"scale", "[1], what x is multiplied by", "f32"}};
constexpr OperandSpec kDelayedOut[] = {{"next_history", "[H]", "f32"},
                                       {"next_scale", "[1]", "f32"}};
constexpr ParameterSpec kDelayedSet[] = {
    kFormat,
    {"amax", "max|most_recent", "the amax of the history that is used"},
    {"margin", "0", "the largest value is multiplied by 2^-margin"}};

constexpr CatalogueEntry kEntries[] = {
    {"quantize", "high precision to 8-bit codes and a scale for each block", kQuantizeIn,
     kQuantizeOut, kQuantizeSet, call_quantize},
    {"dequantize", "codes and scales to bf16 or f32, one rounding", kDequantizeIn, kDequantizeOut,
     kDequantizeSet, call_dequantize},
    {"delayed_scale", "the next step's scale of a tensor from a history of amax", kDelayedIn,
     kDelayedOut, kDelayedSet, call_delayed_scale},
};

}  // namespace

std::span<const CatalogueEntry> quantize_entries() { return kEntries; }

}  // namespace mxo
