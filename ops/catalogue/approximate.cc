// Catalogue entry of approximate.
#include "ops/approximate.h"

#include "formats/error.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"

namespace mxo {
namespace {

struct NamedFunction {
  std::string_view name;
  ChipFunction function;
};
constexpr NamedFunction kFunctions[] = {
    {"ex2", ChipFunction::ex2},           {"rcp", ChipFunction::rcp},
    {"rsqrt", ChipFunction::rsqrt},       {"sqrt", ChipFunction::sqrt},
    {"lg2", ChipFunction::lg2},           {"tanh", ChipFunction::tanh},
    {"div_full", ChipFunction::div_full},
};

ChipFunction function_of(const Parameters& set) {
  const std::string_view given = set.text("function", "");
  for (const NamedFunction& row : kFunctions) {
    if (row.name == given) return row.function;
  }
  return kFunctions[0].function;
}

NamedTensors call_approximate(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  const std::string_view machine = set.text("machine", "sm90");
  if (machine != "sm90") {
    throw Error(Fault::argument,
                "approximate: machine: found " + std::string(machine) + ", needs sm90");
  }
  Staging stage(backend, "approximate", inputs);
  Approximate op;
  op.function = function_of(set);
  op.ftz = set.flag("ftz", true);
  op.x = stage.floats("x");
  if (stage.has("b")) op.b = stage.floats("b");
  op.y = stage.output("y", Dtype::f32, stage.given("x").shape());
  approximate(stage.ready(), op);
  return stage.finish();
}

constexpr OperandSpec kIn[] = {{"x", "any shape", "f32"},
                               {"b", "shape of x, of div_full alone", "f32", true}};
constexpr OperandSpec kOut[] = {{"y", "shape of x", "f32"}};
constexpr ParameterSpec kSet[] = {
    {"function", "ex2|rcp|rsqrt|sqrt|lg2|tanh|div_full",
     "the function: FUNCTION.approx.f32, or div.full.f32"},
    {"machine", "sm90", "the chip whose bits are computed"},
    {"ftz", "true|false", "flush subnormal operands and results to zero; no effect on tanh"}};

constexpr CatalogueEntry kEntries[] = {
    {"approximate", "approximate functions of a chip, bit for bit", kIn, kOut, kSet,
     call_approximate},
};

}  // namespace

std::span<const CatalogueEntry> approximate_entries() { return kEntries; }

}  // namespace mxo
