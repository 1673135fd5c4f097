// Catalogue entries of quantize and dequantize.
#include "ops/quantize.h"

#include "formats/scale_layout.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/quantize_parameters.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"

namespace mxo {
namespace {

/// Where codes and scales lie, for x of shape `shape`.
struct Placement {
  BlockAxis axis;
  bool transpose;
  Index block;
  ScaleStorage storage = ScaleStorage::row_major;
  std::vector<Index> codes;
  std::vector<Index> scales;
};

Placement placement(std::string_view op, const Parameters& set, const std::vector<Index>& shape) {
  const Check check(op);
  check.that(shape.size() == 2 || shape.size() == 3,
             "x: found rank " + std::to_string(shape.size()) + ", needs rank 2 to 3");
  Placement p;
  p.axis = set.text("axis", "-1") == "-2" ? BlockAxis::rows : BlockAxis::columns;
  p.transpose = set.flag("transpose", false);
  p.block = set.integer("block", kMxBlock);
  check.that(p.block > 0, "block: found " + std::to_string(p.block) + ", needs a positive number");
  const bool along_rows = p.axis == BlockAxis::rows;
  if (p.transpose && !along_rows) {
    throw Error(Fault::argument, std::string(op) + ": transpose: needs axis=-2");
  }
  const Index r = shape[shape.size() - 2];
  const Index k = shape.back();
  check.multiple("x", along_rows ? "R" : "K", along_rows ? r : k, p.block);
  p.codes = shape;
  p.scales = along_rows ? with_axis(shape, 2, r / p.block) : with_axis(shape, 1, k / p.block);
  if (p.transpose) {
    p.codes = with_axis(with_axis(shape, 2, k), 1, r);
    p.scales = with_axis(with_axis(shape, 2, k), 1, r / p.block);
  }
  if (set.text("scale_layout", "row_major") == "blocked") {
    if (along_rows) {
      throw Error(Fault::argument, std::string(op) + ": scale_layout: blocked needs axis=-1");
    }
    p.storage = ScaleStorage::blocked;
    p.scales = {blocked_bytes(r, k / p.block)};
    if (shape.size() == 3) p.scales.insert(p.scales.begin(), shape[0]);
  }
  return p;
}

NamedTensors call_quantize(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "quantize", inputs);
  const Placement p = placement("quantize", set, stage.given("x").shape());
  Quantize op;
  op.x = stage.floats("x");
  op.codes = stage.output("codes", set.format("format", "e4m3"), p.codes);
  op.scales = stage.output("scales", Dtype::e8m0, p.scales);
  if (p.transpose) {
    op.codes = transposed(op.codes);
    op.scales = transposed(op.scales);
  }
  op.mode = scale_mode_of(set);
  op.axis = p.axis;
  op.block = p.block;
  op.profile = profile_of(set);
  op.storage = p.storage;
  quantize(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_dequantize(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "dequantize", inputs);
  Dequantize op;
  op.codes = stage.codes("codes", set.format("format", "e4m3"));
  op.scales = stage.scales("scales");
  std::vector<Index> shape = stage.given("codes").shape();
  if (set.flag("transpose", false) && op.codes.rank >= 2 && op.scales.rank >= 2) {
    op.codes = transposed(op.codes);
    op.scales = transposed(op.scales);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  }
  op.axis = set.text("axis", "-1") == "-2" ? BlockAxis::rows : BlockAxis::columns;
  op.block = set.integer("block", kMxBlock);
  op.x = stage.output("x", set.format("out", "bf16"), shape);
  dequantize(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kFormat{"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz", "the element format"};
constexpr ParameterSpec kAxis{"axis", "-1|-2", "along which neighbours share a scale"};
constexpr ParameterSpec kTranspose{"transpose", "false|true", "with axis -2: last axes exchanged"};
constexpr ParameterSpec kBlock{"block", "32", "neighbours that share a scale"};

constexpr OperandSpec kQuantizeIn[] = {{"x", "[.., R, K]", "f32 or bf16"}};
constexpr OperandSpec kQuantizeOut[] = {{"codes", "[.., R, K]", "u8"},
                                        {"scales", "[.., R, K/32]", "u8 (e8m0)"}};
constexpr ParameterSpec kQuantizeSet[] = {
    kFormat,
    {"scale_mode", "rceil|floor|ceil|even", "how amax becomes a power of two"},
    kAxis,
    kTranspose,
    kBlock,
    {"profile", "torchao|te|ocp|torchao_cuda", "whose edge cases"},
    {"scale_layout", "row_major|blocked", "blocked: 128x4 tiles, one matrix per expert"},
};
constexpr OperandSpec kDequantizeOut[] = {{"x", "[.., R, K]", "bf16 or f32"}};
constexpr ParameterSpec kDequantizeSet[] = {
    kFormat, kAxis, kTranspose, kBlock, {"out", "bf16|f32", "type of the result"}};

constexpr CatalogueEntry kEntries[] = {
    {"quantize", "high precision to MX codes and e8m0 scales", kQuantizeIn, kQuantizeOut,
     kQuantizeSet, call_quantize},
    {"dequantize", "MX codes and scales to bf16 or f32, one rounding", kQuantizeOut, kDequantizeOut,
     kDequantizeSet, call_dequantize},
};

}  // namespace

std::span<const CatalogueEntry> quantize_entries() { return kEntries; }

}  // namespace mxo
