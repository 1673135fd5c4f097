// Catalogue entries of encode and decode.
#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/convert.h"

namespace mxo {
namespace {

NamedTensors call_encode(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "encode", inputs);
  Encode op;
  op.x = stage.floats("x");
  op.codes = stage.output("codes", set.format("format", "e4m3"), stage.given("x").shape());
  if (set.text("overflow", "saturate") == "nonfinite") op.overflow = Overflow::nonfinite;
  if (set.text("nan", "positive") == "signed") op.nan = NanSign::of_operand;
  const std::string_view rounding = set.text("rounding", "nearest");
  if (rounding == "up") op.rounding = E8M0Rounding::up;
  if (rounding == "zero") op.rounding = E8M0Rounding::zero;
  encode(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_decode(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "decode", inputs);
  Decode op;
  op.codes = stage.codes("codes", set.format("format", "e4m3"));
  op.x = stage.output("x", Dtype::f32, stage.given("codes").shape());
  decode(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kFormat{"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz|e8m0", "the small format"};

constexpr OperandSpec kEncodeIn[] = {{"x", "any shape", "f32, bf16 or f16"}};
constexpr OperandSpec kEncodeOut[] = {{"codes", "shape of x", "u8"}};
constexpr ParameterSpec kEncodeSet[] = {
    kFormat,
    {"overflow", "saturate|nonfinite", "largest finite value, or infinity/NaN"},
    {"nan", "positive|signed", "NaN byte 7F, or 7F/FF by the sign (fnuz: always 80)"},
    {"rounding", "nearest|up|zero", "e8m0 only"},
};
constexpr OperandSpec kDecodeIn[] = {{"codes", "any shape", "u8"}};
constexpr OperandSpec kDecodeOut[] = {{"x", "shape of codes", "f32"}};
constexpr ParameterSpec kDecodeSet[] = {kFormat};

constexpr CatalogueEntry kEntries[] = {
    {"encode", "floats to codes of a small format, element by element", kEncodeIn, kEncodeOut,
     kEncodeSet, call_encode},
    {"decode", "codes to f32, exactly", kDecodeIn, kDecodeOut, kDecodeSet, call_decode},
};

}  // namespace

std::span<const CatalogueEntry> conversion_entries() { return kEntries; }

}  // namespace mxo
