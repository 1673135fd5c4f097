// Catalogue entries of cast, add_bias and column_sum.
#include "ops/elementwise.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"

namespace mxo {
namespace {

Operand optional_ends(Staging& stage) {
  return stage.has("group_ends") ? stage.indices("group_ends") : Operand{};
}

NamedTensors call_cast(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "cast", inputs);
  Cast op;
  op.x = stage.floats("x");
  op.y = stage.output("y", set.format("out", "bf16"), stage.given("x").shape());
  cast(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_add_bias(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "add_bias", inputs);
  AddBias op;
  op.y = stage.floats("y");
  op.bias = stage.floats("bias");
  op.group_ends = optional_ends(stage);
  op.out = stage.output("out", set.format("out", "bf16"), stage.given("y").shape());
  add_bias(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_column_sum(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "column_sum", inputs);
  ColumnSum op;
  op.x = stage.floats("x");
  op.group_ends = optional_ends(stage);
  std::vector<Index> shape{op.x.extent[1]};
  if (set.text("over", "rows") == "groups") shape.insert(shape.begin(), op.group_ends.extent[0]);
  op.sum = stage.output("sum", set.format("out", "f32"), shape);
  column_sum(stage.ready(), op);
  return stage.finish();
}

constexpr OperandSpec kEnds{"group_ends", "[E]", "i32", true};

constexpr OperandSpec kCastIn[] = {{"x", "any shape", "f32, bf16 or f16"}};
constexpr OperandSpec kCastOut[] = {{"y", "shape of x", "bf16, f32 or f16"}};
constexpr ParameterSpec kCastSet[] = {{"out", "bf16|f32|f16", "type of the result"}};
constexpr OperandSpec kBiasIn[] = {
    {"y", "[R, N]", "f32 or bf16"}, {"bias", "[N] or [E, N]", "f32 or bf16"}, kEnds};
constexpr OperandSpec kBiasOut[] = {{"out", "[R, N]", "bf16 or f32"}};
constexpr ParameterSpec kBiasSet[] = {{"out", "bf16|f32", "type of the result"}};
constexpr OperandSpec kSumIn[] = {{"x", "[R, N]", "f32 or bf16"}, kEnds};
constexpr OperandSpec kSumOut[] = {{"sum", "[N], or [E, N] over groups", "f32 or bf16"}};
constexpr ParameterSpec kSumSet[] = {
    {"over", "rows|groups", "one sum over all rows, or one for each group"},
    {"out", "f32|bf16", "type of the result"}};

constexpr CatalogueEntry kEntries[] = {
    {"cast", "floats to another wide type, to nearest even", kCastIn, kCastOut, kCastSet,
     call_cast},
    {"add_bias", "a bias added in f32 and rounded", kBiasIn, kBiasOut, kBiasSet, call_add_bias},
    {"column_sum", "columns summed in f32, rows ascending", kSumIn, kSumOut, kSumSet,
     call_column_sum},
};

}  // namespace

std::span<const CatalogueEntry> elementwise_entries() { return kEntries; }

}  // namespace mxo
