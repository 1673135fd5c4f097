// Catalogue entries of quantize_rowwise and quantize_blockwise.
#include "ops/quantize_f32_scales.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/quantize_parameters.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"

namespace mxo {
namespace {

NamedTensors call_rowwise(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "quantize_rowwise", inputs);
  const std::vector<Index> shape = stage.given("x").shape();
  const Check check("quantize_rowwise");
  check.that(!shape.empty(), "x: found rank 0, needs rank 1 to 4");
  QuantizeRowwise op;
  op.x = stage.floats("x");
  op.codes = stage.output("codes", set.format("format", "e4m3"), shape);
  if (set.text("axis", "-1") == "-2") op.axis = BlockAxis::rows;
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  std::vector<Index> scales(shape.begin(), shape.end() - 1);
  if (op.axis == BlockAxis::rows) scales = {op.group_ends.extent[0], shape.back()};
  op.scales = stage.output("scales", Dtype::f32, scales);
  op.rule.power_of_2 = set.flag("power_of_2", true);
  op.rule.epsilon = set.real("epsilon", op.rule.epsilon);
  quantize_rowwise(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_blockwise(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "quantize_blockwise", inputs);
  std::vector<Index> shape = stage.given("x").shape();
  const Check check("quantize_blockwise");
  check.that(shape.size() == 2 || shape.size() == 3,
             "x: found rank " + std::to_string(shape.size()) + ", needs rank 2 to 3");
  QuantizeBlockwise op;
  op.block = block_shape(set.text("block", "1x128"));
  op.x = stage.floats("x");
  op.codes = stage.output("codes", set.format("format", "e4m3"), shape);
  Index& r = shape[shape.size() - 2];
  Index& k = shape[shape.size() - 1];
  if (stage.has("group_ends")) {
    op.group_ends = stage.indices("group_ends");
    r = blocks_of(stage.on_host("group_ends"), r);
  } else {
    r = ceil_div(r, block_rows(op.block));
    k = ceil_div(k, block_columns(op.block));
  }
  op.scales = stage.output("scales", Dtype::f32, shape);
  op.rule = blockwise_rule_of(set);
  quantize_blockwise(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kFormat{"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz", "the element format"};

constexpr OperandSpec kRowwiseIn[] = {{"x", "[.., K]", "f32 or bf16"},
                                      {"group_ends", "[E], with axis -2", "i32", true}};
constexpr OperandSpec kRowwiseOut[] = {{"codes", "[.., K]", "u8"},
                                       {"scales", "[..], or [E, K] with axis -2", "f32"}};
constexpr ParameterSpec kRowwiseSet[] = {
    kFormat,
    {"axis", "-1|-2", "one scale per row, or per column of each group"},
    {"power_of_2", "true|false", "clear the mantissa of the multiplier"},
    {"epsilon", "1e-12", "floor of amax"},
};
constexpr OperandSpec kBlockwiseIn[] = {{"x", "[R, K] or [E, R, K]", "f32 or bf16"},
                                        {"group_ends", "[E], with block 128x1", "i32", true}};
constexpr OperandSpec kBlockwiseOut[] = {{"codes", "shape of x", "u8"},
                                         {"scales", "one per block, ragged ends too", "f32"}};
constexpr ParameterSpec kBlockwiseSet[] = {
    kFormat,
    {"block", "1x128|128x1|128x128", "elements that share a scale"},
    {"profile", "torchao|te|flow", "whose rule for the scale"},
};

constexpr CatalogueEntry kEntries[] = {
    {"quantize_rowwise", "codes with one f32 scale per row, or per column and group", kRowwiseIn,
     kRowwiseOut, kRowwiseSet, call_rowwise},
    {"quantize_blockwise", "codes with one f32 scale per 128-block", kBlockwiseIn, kBlockwiseOut,
     kBlockwiseSet, call_blockwise},
};

}  // namespace

std::span<const CatalogueEntry> quantize_f32_scales_entries() { return kEntries; }

}  // namespace mxo
