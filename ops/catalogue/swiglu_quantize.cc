// Catalogue entries of swiglu_quantize and its gradients.
#include "ops/swiglu_quantize.h"

#include "ops/catalogue/families.h"
#include "ops/catalogue/quantize_parameters.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"

namespace mxo {
namespace {

[[noreturn]] void refuse(std::string_view op, std::string_view key, const std::string& needs) {
  throw Error(Fault::argument, std::string(op) + ": " + std::string(key) + ": needs " + needs);
}

void fill_mx(std::string_view op, const Parameters& set, QuantizedResult& to, Index& r, Index& k) {
  to.axis = set.text("axis", "-1") == "-2" ? BlockAxis::rows : BlockAxis::columns;
  to.block = set.integer("block", kMxBlock);
  if (to.block < 1) refuse(op, "block", "a positive number, or 1x128, 128x1 or 128x128");
  if (set.text("profile", "torchao") == "flow") refuse(op, "profile", "blocks of 128 for flow");
  to.mode = scale_mode_of(set);
  to.profile = profile_of(set);
  Index& along = to.axis == BlockAxis::rows ? r : k;
  Check(op).multiple("x", to.axis == BlockAxis::rows ? "R" : "columns of the result", along,
                     to.block);
  along /= to.block;
}

/// Outputs `codes` and `scales` for [rows, columns].
QuantizedResult outputs(std::string_view op, Staging& stage, const Parameters& set, Index rows,
                        Index columns) {
  QuantizedResult to;
  const bool flow = set.text("profile", "torchao") == "flow";
  const std::string_view block = set.text("block", flow ? "1x128" : "32");
  const bool square = block == "1x128" || block == "128x1" || block == "128x128";
  const bool turns = set.flag("transpose", false);
  if (turns && (square || set.text("axis", "-1") != "-2")) refuse(op, "transpose", "axis=-2");
  const std::vector<Index> shape = turns ? std::vector{columns, rows} : std::vector{rows, columns};
  to.codes = stage.output("codes", set.format("format", "e4m3"), shape);
  Index r = rows;
  Index k = columns;
  if (square) {
    to.shape = block_shape(block);
    to.rule = blockwise_rule_of(set);
    const std::string_view profile = set.text("profile", "torchao");
    if (profile == "ocp" || profile == "torchao_cuda") {
      refuse(op, "profile", "torchao, te or flow for blocks of 128");
    }
    if (stage.has("group_ends")) {
      to.group_ends = stage.indices("group_ends");
      r = blocks_of(stage.on_host("group_ends"), r);
    } else {
      r = ceil_div(r, block_rows(to.shape));
      k = ceil_div(k, block_columns(to.shape));
    }
    to.scales = stage.output("scales", Dtype::f32, {r, k});
    return to;
  }
  fill_mx(op, set, to, r, k);
  to.scales = stage.output("scales", Dtype::e8m0, turns ? std::vector{k, r} : std::vector{r, k});
  if (stage.has("group_ends")) to.group_ends = stage.indices("group_ends");
  if (turns) {
    to.codes = transposed(to.codes);
    to.scales = transposed(to.scales);
  }
  return to;
}

Dtype rounding(const Parameters& set) {
  return set.text("rounding", "none") == "bf16" ? Dtype::bf16 : Dtype::f32;
}

/// Rows and columns of x.
std::vector<Index> shape_of_x(std::string_view op, const Staging& stage) {
  const std::vector<Index> shape = stage.given("x").shape();
  Check(op).that(shape.size() == 2,
                 "x: found rank " + std::to_string(shape.size()) + ", needs rank 2");
  return shape;
}

NamedTensors call_forward(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  constexpr std::string_view kName = "swiglu_quantize";
  Staging stage(backend, kName, inputs);
  const std::vector<Index> shape = shape_of_x(kName, stage);
  SwigluQuantize op;
  op.x = stage.floats("x");
  if (stage.has("probs")) op.probs = stage.floats("probs");
  op.rounding = rounding(set);
  op.y = outputs(kName, stage, set, shape[0], shape[1] / 2);
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
  op.dx = outputs(kName, stage, set, shape[0], shape[1]);
  if (stage.has("probs")) {
    op.probs = stage.floats("probs");
    op.dprobs = stage.output("dprobs", Dtype::f32, {shape[0]});
  }
  swiglu_quantize_backward(stage.ready(), op);
  return stage.finish();
}

constexpr OperandSpec kX{"x", "[R, 2F], gate first", "f32 or bf16"};
constexpr OperandSpec kProbs{"probs", "[R]", "f32", true};
constexpr OperandSpec kEnds{"group_ends", "[E], with block 128x1", "i32", true};
constexpr OperandSpec kForwardIn[] = {kX, kProbs, kEnds};
constexpr OperandSpec kForwardOut[] = {
    {"codes", "[R, F]", "u8"}, {"scales", "[R, F/32] or one per 128-block", "u8 (e8m0) or f32"}};
constexpr OperandSpec kBackwardIn[] = {kX, {"dy", "[R, F]", "f32 or bf16"}, kProbs, kEnds};
constexpr OperandSpec kBackwardOut[] = {
    {"codes", "[R, 2F]", "u8"},
    {"scales", "[R, 2F/32] or one per 128-block", "u8 (e8m0) or f32"},
    {"dprobs", "[R]", "f32", true}};
constexpr ParameterSpec kSet[] = {
    {"rounding", "none|bf16", "before quantising"},
    {"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz", "of codes"},
    {"block", "32",
     "neighbours that share an e8m0 scale; or 1x128 (with profile flow), 128x1, 128x128: f32 "
     "scales"},
    {"scale_mode", "rceil|floor|ceil|even", "of e8m0 scales"},
    {"axis", "-1|-2", "of e8m0 scales: along which neighbours share one"},
    {"transpose", "false|true", "with axis -2: axes exchanged"},
    {"profile", "torchao|te|ocp|torchao_cuda|flow", "whose rule for the scale"},
};

constexpr CatalogueEntry kEntries[] = {
    {"swiglu_quantize", "swiglu and quantize, or quantize_blockwise, in one pass", kForwardIn,
     kForwardOut, kSet, call_forward},
    {"swiglu_quantize_backward", "gradients of swiglu, quantised in the same pass", kBackwardIn,
     kBackwardOut, kSet, call_backward},
};

}  // namespace

std::span<const CatalogueEntry> swiglu_quantize_entries() { return kEntries; }

}  // namespace mxo
