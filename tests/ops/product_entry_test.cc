// The catalogue's products: sides, blocks and sums that reach a backend.
#include "tests/ops/entry_calls.h"

namespace mxo {
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
  sum=b200_mxf8f6f4 sum.fold=x_then_w -> sum: b200_mxf8f6f4: found operands of kind fp8 (e4m3,
      e5m2), needs one of mx
grouped_matmul: x.codes u8 64 256, x.scales f32 64 2, w.codes u8 2 130 256, w.scales i32 2 2 2,
      group_ends = 32 64
  sum=b200_mxf8f6f4 -> sum: b200_mxf8f6f4: found operands of kind fp8 (e4m3, e5m2), needs one of mx
  sum=ada_mma -> x.codes e4m3 64x256 * x.scales f32 64x2 of 1x128, w.codes e4m3 2x130x256 * w.scales
      f32 2x2x2 of 128x128, group_ends i32 2, sum ada_mma/13/1/by_scales, y bf16 64x130
grouped_matmul: x.codes u8 64 256, x.scales u8 64 8, w.codes u8 2 130 256, w.scales f32 2 2 2,
      group_ends = 32 64
  sum=b200_mxf8f6f4 -> sum: b200_mxf8f6f4: found operands of kind fp8 (e4m3, e5m2), needs one of mx
  sum=ada_mma -> x.codes e4m3 64x256 * x.scales e8m0 64x8 of 1x32, w.codes e4m3 2x130x256 * w.scales
      f32 2x2x2 of 128x128, group_ends i32 2, sum ada_mma/13/1/by_scales, y bf16 64x130
grouped_matmul: x.codes u8 64 256, x.scales f32 64 2, w.codes u8 2 130 256, w.scales u8 2 130 8,
      group_ends = 32 64
  sum=b200_mxf8f6f4 -> sum: b200_mxf8f6f4: found operands of kind fp8 (e4m3, e5m2), needs one of mx
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

}  // namespace
}  // namespace mxo
