// The catalogue's products and layouts of scales: what of a call reaches a backend.
#include "tests/ops/entry_calls.h"

namespace mxo::product_entry_test {
namespace {

TEST(ProductEntries, SumByTheKindOfOperands) {
  expect_reached(R"(
grouped_matmul: x.codes u8 64 256, x.scales u8 64 8, w.codes u8 2 130 256, w.scales e8m0 2 130 8,
      group_ends = 32 64
  sum=b200_mxf8f6f4 -> x.codes e4m3 64x256 * x.scales e8m0 64x8 of 1x32, w.codes e4m3 2x130x256 *
      w.scales e8m0 2x130x8 of 1x32, group_ends i32 2, sum b200_mxf8f6f4/25/1/by_scales, y bf16
      64x130
  sum=b200_mxf8f6f4 sum.fold=term -> x.codes e4m3 64x256 * x.scales e8m0 64x8 of 1x32, w.codes e4m3
      2x130x256 * w.scales e8m0 2x130x8 of 1x32, group_ends i32 2, sum b200_mxf8f6f4/25/1/term, y
      bf16 64x130
  sum=b200_mxf8f6f4 sum.fold=x_then_w -> sum: b200_mxf8f6f4: found x e4m3 with e8m0
      scales and w e4m3 with e8m0 scales, sum.fold=x_then_w, needs both of one kind: mx
grouped_matmul: x.codes u8 64 256, x.scales f32 64 2, w.codes u8 2 130 256, w.scales i32 2 2 2,
      group_ends = 32 64
  sum=ada_mma -> x.codes e4m3 64x256 * x.scales f32 64x2 of 1x128, w.codes e4m3 2x130x256 * w.scales
      f32 2x2x2 of 128x128, group_ends i32 2, sum ada_mma/13/1/by_scales, y bf16 64x130
grouped_matmul: x.codes u8 64 256, x.scales u8 64 8, w.codes u8 2 130 256, w.scales f32 2 2 2,
      group_ends = 32 64
  sum=b200_mxf8f6f4 -> sum: b200_mxf8f6f4: found x e4m3 with e8m0 scales and w e4m3 with f32
      scales, needs both of one kind: mx
  sum=ada_mma -> x.codes e4m3 64x256 * x.scales e8m0 64x8 of 1x32, w.codes e4m3 2x130x256 * w.scales
      f32 2x2x2 of 128x128, group_ends i32 2, sum ada_mma/13/1/by_scales, y bf16 64x130
grouped_matmul: x.codes u8 64 256, x.scales f32 64 2, w.codes u8 2 130 256, w.scales u8 2 130 8,
      group_ends = 32 64
  sum=b200_mxf8f6f4 -> sum: b200_mxf8f6f4: found x e4m3 with f32 scales and w e4m3 with e8m0
      scales, needs both of one kind: mx
  sum=ada_mma -> x.codes e4m3 64x256 * x.scales f32 64x2 of 1x128, w.codes e4m3 2x130x256 * w.scales
      e8m0 2x130x8 of 1x32, group_ends i32 2, sum ada_mma/13/1/by_scales, y bf16 64x130
)");
}

TEST(ProductEntries, ContractGradientsOfEveryGroup) {
  expect_reached(R"(
grouped_matmul_wgrad: dy bf16 64 130, x f32 64 200, group_ends = 32 64
  -> dy bf16 64x130, x f32 64x200, group_ends i32 2, dw bf16 2x130x200
  sum=fma_chain -> dy bf16 64x130, x f32 64x200, group_ends i32 2, sum fma_chain/0/1/by_scales, dw
      bf16 2x130x200
grouped_matmul_wgrad: dy bf16 64, x f32 64 200, group_ends = 32 64, dw > bf16 2 130 200
  -> grouped_matmul_wgrad: dy: found bf16 [64], needs rank 2
grouped_matmul_wgrad: dy bf16 64 130, x bf16 64, group_ends = 32 64, dw > bf16 2 130 200
  -> grouped_matmul_wgrad: x: found bf16 [64], needs rank 2
grouped_matmul_wgrad: dy bf16 64 130, x f32 64 200, group_ends i32 1 2, dw > bf16 2 130 200
  -> grouped_matmul_wgrad: group_ends: found i32 [1, 2], needs rank 1
grouped_matmul_wgrad: dy.codes u8 64 130, x.codes u8 64 200, dy.scales u8 2 130, x.scales u8 2 200,
      group_ends = 32 64
  format_dy=e5m2 out=f32 -> dy.codes e5m2 64x130 * dy.scales e8m0 2x130 of 32x1, x.codes e4m3 64x200
      * x.scales e8m0 2x200 of 32x1, group_ends i32 2, dw f32 2x130x200
  format_x=e5m2 -> dy.codes e4m3 64x130 * dy.scales e8m0 2x130 of 32x1, x.codes e5m2 64x200 *
      x.scales e8m0 2x200 of 32x1, group_ends i32 2, dw bf16 2x130x200
  block_x=Rx1 -> dy.codes e4m3 64x130 * dy.scales e8m0 2x130 of 32x1, x.codes e4m3 64x200 * x.scales
      e8m0 2x200 of Rx1, group_ends i32 2, dw bf16 2x130x200
  block_dy=Rx1 -> dy.codes e4m3 64x130 * dy.scales e8m0 2x130 of Rx1, x.codes e4m3 64x200 * x.scales
      e8m0 2x200 of 32x1, group_ends i32 2, dw bf16 2x130x200
)");
}

TEST(FusedDotEntries, ReachTheBackend) {
  expect_reached(R"(
fused_dot: a u16 2 3 64, b bf16 2 5 64, c i32 2 3 5
  sum=h200_mma_sync -> a bf16 2x3x64, b bf16 2x5x64, c f32 2x3x5, sum h200_mma_sync/25/1/by_scales,
      d f32 2x3x5
  sum=h200_mma_sync sum.bits=20 -> a bf16 2x3x64, b bf16 2x5x64, c f32 2x3x5, sum
      h200_mma_sync/20/1/by_scales, d f32 2x3x5
  -> fused_dot: sum: found none, needs a machine of `mxo list sums`
  sum=h200_mma_sync sum.split=auto -> fused_dot: sum.split: found auto, needs a number; grouped
      products search
fused_dot: a f16 2 3 64, b f16 2 5 64, c i32 2 3 5
  sum=h200_mma_sync -> a f16 2x3x64, b f16 2x5x64, c f32 2x3x5, sum h200_mma_sync/25/1/by_scales, d
      f32 2x3x5
fused_dot: a u8 2 3 64, b u8 2 5 64, c i32 2 3 5, a.scales u8 2 3 2, b.scales u8 2 5 2
  sum=b200_tcgen05 -> a e4m3 2x3x64, b e4m3 2x5x64, c f32 2x3x5, a_scales a.scales e8m0 2x3x2,
      b_scales b.scales e8m0 2x5x2, sum b200_tcgen05/25/1/by_scales, d f32 2x3x5
  sum=b200_mxf8f6f4 -> a e4m3 2x3x64, b e4m3 2x5x64, c f32 2x3x5, a_scales a.scales e8m0 2x3x2,
      b_scales b.scales e8m0 2x5x2, sum b200_mxf8f6f4/25/1/by_scales, d f32 2x3x5
fused_dot: a u8 2 3 64, b u8 2 5 64, c i32 2 3 5, b.scales u8 2 5 2
  sum=b200_mxf8f6f4 -> fused_dot: a.scales: missing, needs scales of both or of neither
fused_dot: a u8 2 3 64, b u8 2 5 64, c i32 2 3 5, a.scales u8 2 3 2
  sum=b200_mxf8f6f4 -> fused_dot: b.scales: missing, needs scales of both or of neither
fused_dot: a u8 2 3 64, b u8 2 5 64, c i32 2 3 5
  sum=b200_tcgen05 -> a e4m3 2x3x64, b e4m3 2x5x64, c f32 2x3x5, sum b200_tcgen05/25/1/by_scales, d
      f32 2x3x5
)");
}

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
}  // namespace mxo::product_entry_test
