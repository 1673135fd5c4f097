// Catalogue entries of swizzle_scales and unswizzle_scales.
#include <limits>
#include <optional>

#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"
#include "ops/packed_scales.h"
#include "ops/scale_layouts.h"

namespace mxo {
namespace {

ScaleLayout layout_named(std::string_view name) {
  if (name == "m_groups") return ScaleLayout::m_groups;
  if (name == "k_groups") return ScaleLayout::k_groups;
  return name == "per_group_3d" ? ScaleLayout::per_group_3d : ScaleLayout::blocked;
}

/// A layout of another library.
std::optional<PackedLayout> packed_named(std::string_view name) {
  if (name == "mn_major_tma") return PackedLayout::mn_major_tma;
  if (name == "cublas_1x128") return PackedLayout::cublas_1x128;
  if (name == "packed_ue8m0") return PackedLayout::packed_ue8m0;
  if (name == "tiles_8x4") return PackedLayout::tiles_8x4;
  return std::nullopt;
}

/// An output of bytes: e8m0 where the operand says that its own are.
Result bytes_like(Staging& stage, std::string_view operand, std::string_view output,
                  std::vector<Index> shape) {
  const bool named = stage.given(operand).dtype() == Dtype::e8m0;
  Result bytes = stage.output(output, named ? Dtype::e8m0 : Dtype::u8, std::move(shape));
  bytes.dtype = Dtype::u8;
  return bytes;
}

/// The bytes of an operand that may say that they are e8m0.
Operand tile_bytes(Staging& stage, std::string_view name) {
  Operand bytes = stage.scales(name);
  bytes.dtype = Dtype::u8;
  return bytes;
}

NamedTensors call_pack(Backend& backend, const NamedViews& inputs, PackedLayout layout) {
  constexpr std::string_view kOp = "swizzle_scales";
  Staging stage(backend, kOp, inputs);
  const PlacedOperand& given = stage.given("scales");
  Check(kOp).rank("scales", given.view, 2, 3);
  const bool bytes = given.dtype() == Dtype::u8 || given.dtype() == Dtype::e8m0;
  const bool floats =
      packed_dtype(layout) == Dtype::f32 || (layout == PackedLayout::packed_ue8m0 && !bytes);
  PackScales op;
  op.layout = layout;
  op.scales = floats ? stage.floats("scales") : stage.scales("scales");
  const bool tiles = layout == PackedLayout::tiles_8x4;
  op.packed =
      tiles ? bytes_like(stage, "scales", "blocked", packed_shape(layout, given.shape()))
            : stage.output("blocked", packed_dtype(layout), packed_shape(layout, given.shape()));
  pack_scales(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_swizzle(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  if (const auto packed = packed_named(set.text("layout", ""))) {
    return call_pack(backend, inputs, *packed);
  }
  Staging stage(backend, "swizzle_scales", inputs);
  const std::vector<Index> shape = stage.given("scales").shape();
  const Check check("swizzle_scales");
  check.that(shape.size() == 2 || shape.size() == 3,
             "scales: found rank " + std::to_string(shape.size()) + ", needs rank 2 to 3");
  SwizzleScales op;
  op.layout = layout_named(set.text("layout", "blocked"));
  op.scales = stage.scales("scales");
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  op.blocked = bytes_like(stage, "scales", "blocked",
                          blocked_shape(op.layout, shape, op.group_ends.extent[0]));
  swizzle_scales(stage.ready(), op);
  return stage.finish();
}

/// Rows and columns of the scales that a call of unswizzle_scales asks for.
std::vector<Index> shape_set(const Parameters& set) {
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  if (!set.has("rows") || !set.has("columns")) {
    throw Error(Fault::argument, "unswizzle_scales: rows and columns: missing, both are needed");
  }
  std::vector<Index> shape = {set.integer("rows", 0), set.integer("columns", 0)};
  for (const Index extent : shape) {
    if (extent < 0 || extent > kMost) {
      throw Error(Fault::argument, "unswizzle_scales: rows, columns: found " +
                                       std::to_string(extent) + ", needs 0 to " +
                                       std::to_string(kMost));
    }
  }
  return shape;
}

NamedTensors call_unpack(Backend& backend, const NamedViews& inputs, const Parameters& set,
                         PackedLayout layout) {
  constexpr std::string_view kOp = "unswizzle_scales";
  Staging stage(backend, kOp, inputs);
  std::vector<Index> shape = shape_set(set);
  const PlacedOperand& given = stage.given("blocked");
  if (layout == PackedLayout::mn_major_tma || layout == PackedLayout::packed_ue8m0) {
    if (given.shape().size() == 3) shape.insert(shape.begin(), given.extent(0));
  }
  UnpackScales op;
  op.layout = layout;
  const bool floats = packed_dtype(layout) == Dtype::f32;
  op.packed = floats                              ? stage.floats("blocked")
              : layout == PackedLayout::tiles_8x4 ? tile_bytes(stage, "blocked")
                                                  : stage.indices("blocked");
  Check(kOp).shape("blocked", op.packed, packed_shape(layout, shape));
  op.scales = floats ? stage.output("scales", Dtype::f32, shape)
                     : bytes_like(stage, "blocked", "scales", shape);
  unpack_scales(stage.ready(), op);
  return stage.finish();
}

/// torchao returns tiles as a matrix of their bytes, too: [rup(R, 128), rup(C, 4)], of each expert.
Operand flattened(Operand blocked, ScaleLayout layout, const std::vector<Index>& shape) {
  const bool experts = layout == ScaleLayout::per_group_3d;
  if ((layout != ScaleLayout::blocked && !experts) || !blocked.contiguous()) return blocked;
  const int first = experts ? 1 : 0;
  if (blocked.rank != first + 2) return blocked;
  if (blocked.extent[first] != round_up(shape[shape.size() - 2], kTileRows) ||
      blocked.extent[first + 1] != round_up(shape.back(), kTileColumns)) {
    return blocked;
  }
  blocked.rank = first + 1;
  blocked.extent[first] *= blocked.extent[first + 1];
  blocked.stride[first] = 1;
  return blocked;
}

NamedTensors call_unswizzle(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  if (const auto packed = packed_named(set.text("layout", ""))) {
    return call_unpack(backend, inputs, set, *packed);
  }
  Staging stage(backend, "unswizzle_scales", inputs);
  UnswizzleScales op;
  op.layout = layout_named(set.text("layout", "blocked"));
  op.blocked = tile_bytes(stage, "blocked");
  if (stage.has("group_ends")) op.group_ends = stage.indices("group_ends");
  std::vector<Index> shape = shape_set(set);
  if (op.layout == ScaleLayout::per_group_3d) shape.insert(shape.begin(), op.blocked.extent[0]);
  op.blocked = flattened(op.blocked, op.layout, shape);
  const Check check("unswizzle_scales");
  check.shape("blocked", op.blocked, blocked_shape(op.layout, shape, op.group_ends.extent[0]));
  op.scales = bytes_like(stage, "blocked", "scales", shape);
  unswizzle_scales(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kLayout{
    "layout",
    "blocked|m_groups|k_groups|per_group_3d|mn_major_tma|cublas_1x128|"
    "packed_ue8m0|tiles_8x4",
    "layout of the 128x4 tiles of several matrices, or of another library"};
constexpr OperandSpec kEnds{"group_ends", "[G], m_groups: rows, k_groups: columns", "i32", true};
constexpr OperandSpec kScales{"scales", "[R, C] or [E, R, C]", "u8 (e8m0), or f32"};
constexpr OperandSpec kBlocked{"blocked", "flat, a matrix, or as the layout has it",
                               "u8 (e8m0), f32 or i32"};

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
