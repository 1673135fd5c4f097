// The catalogue's layouts of scales: which operator, layout and shapes a call comes to.
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(LayoutEntries, PackForOtherLibraries) {
  expect_reached(R"(
swizzle_scales: scales f32 6 3
  layout=mn_major_tma -> pack_scales: scales f32 6x3, packed blocked f32 3x8
  layout=cublas_1x128 -> pack_scales: scales f32 6x3, packed blocked f32 3x8, layout 1
  layout=packed_ue8m0 -> pack_scales: scales f32 6x3, packed blocked i32 1x8, layout 2
  layout=tiles_8x4 -> swizzle_scales: scales: found f32, needs u8 holding e8m0
swizzle_scales: scales i32 6 3
  layout=packed_ue8m0 -> pack_scales: scales f32 6x3, packed blocked i32 1x8, layout 2
swizzle_scales: scales u8 6 3
  layout=packed_ue8m0 -> pack_scales: scales e8m0 6x3, packed blocked i32 1x8, layout 2
  layout=tiles_8x4 -> pack_scales: scales e8m0 6x3, packed blocked u8 32, layout 3
  layout=mn_major_tma -> swizzle_scales: scales: found u8, needs f32
swizzle_scales: scales e8m0 6 3
  layout=packed_ue8m0 -> pack_scales: scales e8m0 6x3, packed blocked i32 1x8, layout 2
  layout=tiles_8x4 -> pack_scales: scales e8m0 6x3, packed blocked u8 32 kept as e8m0 32, layout 3
  layout=mn_major_tma -> swizzle_scales: scales: found e8m0, needs f32
)");
}

TEST(LayoutEntries, TakeMatricesOfBytesFlat) {
  expect_reached(R"(
unswizzle_scales: blocked u8 128 8
  layout=blocked rows=40 columns=6 -> blocked u8 1024, scales u8 40x6
  layout=per_group_3d rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [128, 8], needs [128,
      1024]
unswizzle_scales: blocked u8 3 128 8
  layout=per_group_3d rows=40 columns=6 -> blocked u8 3x1024, scales u8 3x40x6, layout 3
  layout=blocked rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [3, 128, 8], needs [1024]
unswizzle_scales: blocked u8 256 4
  layout=blocked rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [256, 4], needs [1024]
unswizzle_scales: blocked u8 128 4
  layout=blocked rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [128, 4], needs [1024]
unswizzle_scales: blocked u8 256 8
  layout=blocked rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [256, 8], needs [1024]
unswizzle_scales: blocked u8 128 8 3
  layout=blocked rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [128, 8, 3], needs [1024]
unswizzle_scales: blocked u8 3 128 4
  layout=per_group_3d rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [3, 128, 4], needs
      [3, 1024]
unswizzle_scales: blocked u8 128 8, group_ends = 40
  layout=m_groups rows=40 columns=6 -> unswizzle_scales: blocked: found u8 [128, 8], needs [168, 8]
)");
}

TEST(LayoutEntries, NeedRowsAndColumns) {
  expect_reached(R"(
unswizzle_scales: blocked u8 0
  -> unswizzle_scales: rows and columns: missing, both are needed
  rows=40 -> unswizzle_scales: rows and columns: missing, both are needed
  columns=6 -> unswizzle_scales: rows and columns: missing, both are needed
  layout=blocked rows=2147483647 columns=0 -> blocked u8 0, scales u8 2147483647x0
  layout=blocked rows=0 columns=2147483647 -> blocked u8 0, scales u8 0x2147483647
  layout=blocked rows=2147483648 columns=0 -> unswizzle_scales: rows, columns: found 2147483648,
      needs 0 to 2147483647
  layout=blocked rows=0 columns=-1 -> unswizzle_scales: rows, columns: found -1, needs 0 to
      2147483647
  layout=blocked rows=2147483647 columns=2147483647 -> unswizzle_scales: blocked: found u8 [0],
      needs [4611686018427387904]
)");
}

TEST(LayoutEntries, UnpackForOtherLibraries) {
  expect_reached(R"(
unswizzle_scales: blocked f32 3 8
  layout=mn_major_tma rows=6 columns=3 -> unpack_scales: packed blocked f32 3x8, scales f32 6x3
  layout=cublas_1x128 rows=6 columns=3 -> unpack_scales: packed blocked f32 3x8, scales f32 6x3,
      layout 1
unswizzle_scales: blocked i32 2 3 8
  layout=mn_major_tma rows=6 columns=3 -> unpack_scales: packed blocked f32 2x3x8, scales f32 2x6x3
unswizzle_scales: blocked f32 2 3 8
  layout=cublas_1x128 rows=6 columns=3 -> unswizzle_scales: blocked: found f32 [2, 3, 8], needs [3,
      8]
unswizzle_scales: blocked i32 1 8
  layout=packed_ue8m0 rows=6 columns=3 -> unpack_scales: packed blocked i32 1x8, scales u8 6x3,
      layout 2
unswizzle_scales: blocked i32 2 1 8
  layout=packed_ue8m0 rows=6 columns=3 -> unpack_scales: packed blocked i32 2x1x8, scales u8 2x6x3,
      layout 2
unswizzle_scales: blocked u8 32
  layout=tiles_8x4 rows=6 columns=3 -> unpack_scales: packed blocked u8 32, scales u8 6x3, layout 3
  layout=tiles_8x4 rows=2147483647 columns=2147483647 -> unswizzle_scales: blocked: found u8 [32],
      needs [4611686018427387904]
)");
}

}  // namespace
}  // namespace mxo
