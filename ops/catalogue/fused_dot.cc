// Catalogue entry of fused_dot.
#include "ops/fused_dot.h"

#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/catalogue/sum_parameters.h"
#include "ops/checked.h"

namespace mxo {
namespace {

/// Codes where the tensor holds bytes, bf16 or f16 where it holds two.
Operand operand(Staging& stage, const Parameters& set, std::string_view name,
                std::string_view key) {
  const Dtype dtype = stage.given(name).dtype();
  if (dtype == Dtype::u16 || is_wide_float(dtype)) return stage.floats(name);
  return stage.codes(name, set.format(key, "e4m3"));
}

NamedTensors call_fused_dot(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "fused_dot", inputs);
  FusedDot op;
  op.a = operand(stage, set, "a", "format_a");
  op.b = operand(stage, set, "b", "format_b");
  op.c = stage.floats("c");
  if (stage.has("a.scales")) op.a_scales = stage.scales("a.scales");
  if (stage.has("b.scales")) op.b_scales = stage.scales("b.scales");
  const bool scaled = op.a_scales.given() || op.b_scales.given();
  if (!set.has("sum")) {
    throw Error(Fault::argument, "fused_dot: sum: found none, needs a machine of `mxo list sums`");
  }
  if (set.text("sum.split", "") == "auto") {
    throw Error(Fault::argument,
                "fused_dot: sum.split: found auto, needs a number; grouped products search");
  }
  const auto words_of = [](const char* name, const Operand& t, const Operand& scales) {
    return name + std::string(name_of(t.dtype)) + (scales.given() ? " with e8m0 scales" : "");
  };
  op.sum =
      sum_from(set, operand_kind(op.a.dtype, op.b.dtype, scaled),
               words_of("a ", op.a, op.a_scales) + " and " + words_of("b ", op.b, op.b_scales));
  op.d = stage.output("d", Dtype::f32, stage.given("c").shape());
  fused_dot(stage.ready(), op);
  return stage.finish();
}

constexpr std::string_view kTypes = "u8 (the format), bf16 or f16";
constexpr OperandSpec kIn[] = {{"a", "[B, M, K]", kTypes},
                               {"b", "[B, N, K]", kTypes},
                               {"c", "[B, M, N]", "f32"},
                               {"a.scales", "[B, M, K/32]", "u8 (e8m0)", true},
                               {"b.scales", "[B, N, K/32]", "u8 (e8m0)", true}};
constexpr OperandSpec kOut[] = {{"d", "[B, M, N]", "f32"}};
constexpr std::string_view kFormats = "e4m3|e4m3fnuz|e5m2|e5m2fnuz";
constexpr auto kSet = with_sum_parameters(
    {{"format_a", kFormats, "format of codes a"}, {"format_b", kFormats, "format of codes b"}});

constexpr CatalogueEntry kEntries[] = {
    {"fused_dot", "d = a b^T + c on a matrix unit, one instruction or a chain", kIn, kOut, kSet,
     call_fused_dot},
};

}  // namespace

std::span<const CatalogueEntry> fused_dot_entries() { return kEntries; }

}  // namespace mxo
