// Checks of packed layouts of scales.
#include "ops/packed_scales.h"

#include "ops/checked.h"

namespace mxo {
namespace {

constexpr Index kAligned = 4;  // elements of 16 bytes
constexpr Index kTileRows8 = 8;

bool of_floats(PackedLayout layout) {
  return layout == PackedLayout::mn_major_tma || layout == PackedLayout::cublas_1x128;
}

template <typename Scales, typename Packed>
void check_layout(const Check& check, PackedLayout layout, const AnyView<Scales>& scales,
                  const AnyView<Packed>& packed) {
  const bool many = layout == PackedLayout::mn_major_tma || layout == PackedLayout::packed_ue8m0;
  check.rank("scales", scales, 2, many ? 3 : 2);
  if (of_floats(layout)) check.dtype("scales", scales, {Dtype::f32});
  if (layout == PackedLayout::tiles_8x4) check.dtype("scales", scales, {Dtype::e8m0, Dtype::u8});
  check.dtype("blocked", packed, {packed_dtype(layout)});
  check.shape("blocked", packed,
              packed_shape(layout, {scales.extent, scales.extent + scales.rank}));
  check.that(packed.contiguous(), "blocked: found strides, needs contiguous elements");
}

}  // namespace

std::vector<Index> packed_shape(PackedLayout layout, const std::vector<Index>& scales) {
  const Index rows = scales[scales.size() - 2];
  const Index columns = scales[scales.size() - 1];
  std::vector<Index> shape(scales.begin(), scales.end() - 2);
  if (layout == PackedLayout::tiles_8x4) {
    return {round_up(rows, kTileRows8) * round_up(columns, kAligned)};
  }
  shape.push_back(layout == PackedLayout::packed_ue8m0 ? ceil_div(columns, kAligned) : columns);
  shape.push_back(round_up(rows, kAligned));
  return shape;
}

Dtype packed_dtype(PackedLayout layout) {
  if (of_floats(layout)) return Dtype::f32;
  return layout == PackedLayout::packed_ue8m0 ? Dtype::i32 : Dtype::u8;
}

void pack_scales(Backend& backend, const PackScales& op) {
  const Check check("swizzle_scales");
  if (op.layout == PackedLayout::packed_ue8m0) {
    check.dtype("scales", op.scales, {Dtype::e8m0, Dtype::u8, Dtype::f32});
  }
  check_layout(check, op.layout, op.scales, op.packed);
  check.apart("blocked", op.packed, "scales", op.scales);
  Checked::run(backend, op);
}

void unpack_scales(Backend& backend, const UnpackScales& op) {
  const Check check("unswizzle_scales");
  if (op.layout == PackedLayout::packed_ue8m0) {
    check.dtype("scales", op.scales, {Dtype::e8m0, Dtype::u8});
  }
  check_layout(check, op.layout, op.scales, op.packed);
  check.apart("scales", op.scales, "blocked", op.packed);
  Checked::run(backend, op);
}

}  // namespace mxo
