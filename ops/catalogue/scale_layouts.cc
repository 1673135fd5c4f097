// Catalogue entries of swizzle_scales and unswizzle_scales.
#include <algorithm>

#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"
#include "ops/scale_layouts.h"

namespace mxo {
namespace {

ScaleLayout layout_named(std::string_view name) {
  if (name == "m_groups") return ScaleLayout::m_groups;
  if (name == "k_groups") return ScaleLayout::k_groups;
  return name == "per_group_3d" ? ScaleLayout::per_group_3d : ScaleLayout::blocked;
}

NamedTensors call_swizzle(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "swizzle_scales", inputs);
  const std::vector<Index> shape = stage.given("scales").shape();
  const Check check("swizzle_scales");
  check.that(shape.size() == 2 || shape.size() == 3,
             "scales: found rank " + std::to_string(shape.size()) + ", needs rank 2 to 3");
  SwizzleScales op;
  op.layout = layout_named(set.text("layout", "blocked"));
  op.scales = stage.scales("scales");
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  op.blocked =
      stage.output("blocked", Dtype::u8, blocked_shape(op.layout, shape, op.group_ends.extent[0]));
  swizzle_scales(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_unswizzle(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "unswizzle_scales", inputs);
  UnswizzleScales op;
  op.layout = layout_named(set.text("layout", "blocked"));
  op.blocked = stage.codes("blocked", Dtype::u8);
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  if (!set.has("rows") || !set.has("columns")) {
    throw Error(Fault::argument, "unswizzle_scales: rows and columns: missing, both are needed");
  }
  std::vector<Index> shape = {set.integer("rows", 0), set.integer("columns", 0)};
  for (const Index extent : shape) {
    // The blocked bytes are as many as the scales at least: a larger extent is no request.
    if (extent < 0 || extent > std::max<Index>(stage.given("blocked").elements(), 1)) {
      throw Error(Fault::argument, "unswizzle_scales: rows, columns: found " +
                                       std::to_string(extent) + ", needs an extent of 'blocked'");
    }
  }
  if (op.layout == ScaleLayout::per_group_3d) shape.insert(shape.begin(), op.blocked.extent[0]);
  const Check check("unswizzle_scales");
  check.shape("blocked", op.blocked, blocked_shape(op.layout, shape, op.group_ends.extent[0]));
  op.scales = stage.output("scales", Dtype::u8, shape);
  unswizzle_scales(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kLayout{"layout", "blocked|m_groups|k_groups|per_group_3d",
                                "how the 128x4 tiles of several matrices lie"};
constexpr OperandSpec kEnds{"group_ends", "[G], m_groups: rows, k_groups: columns", "i32", true};
constexpr OperandSpec kScales{"scales", "[R, C] or [E, R, C]", "u8 (e8m0)"};
constexpr OperandSpec kBlocked{"blocked", "flat, or the layout's upper bound", "u8"};

constexpr OperandSpec kSwizzleIn[] = {kScales, kEnds};
constexpr OperandSpec kSwizzleOut[] = {kBlocked};
constexpr ParameterSpec kSwizzleSet[] = {kLayout};
constexpr OperandSpec kUnswizzleIn[] = {kBlocked, kEnds};
constexpr OperandSpec kUnswizzleOut[] = {kScales};
constexpr ParameterSpec kUnswizzleSet[] = {
    kLayout, {"rows", "", "rows of scales"}, {"columns", "", "columns of scales"}};

constexpr CatalogueEntry kEntries[] = {
    {"swizzle_scales", "scale bytes to 128x4 tiles, padding 0", kSwizzleIn, kSwizzleOut,
     kSwizzleSet, call_swizzle},
    {"unswizzle_scales", "128x4 tiles to scale bytes", kUnswizzleIn, kUnswizzleOut, kUnswizzleSet,
     call_unswizzle},
};

}  // namespace

std::span<const CatalogueEntry> scale_layout_entries() { return kEntries; }

}  // namespace mxo
