// The catalogue's quantisers, as they reach a backend.
#include "formats/scale_rules.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(QuantizeEntries, ReachTheBackend) {
  expect_reached(R"(
quantize: x u16 64 256
  -> x bf16 64x256, to codes e4m3 64x256 * scales e8m0 64x8 of 1x32
  format=e5m2 block=1x128 epsilon=0.5 rounding=zero -> x bf16 64x256, to codes e5m2 64x256 * scales
      f32 64x2 of 1x128, rule 0/0.5/0/0/3
  scale_layout=blocked -> x bf16 64x256, to codes e4m3 64x256 * scales e8m0 1024 of 1x32 in tiles
quantize: x u16 64 256, given i32 64 2
  block=1x128 -> x bf16 64x256, to codes e4m3 64x256 * scales f32 64x2 of 1x128, given f32 64x2
quantize: x u16 64 256, group_ends = 32 64
  block=128x128 -> x bf16 64x256, group_ends i32 2, to codes e4m3 64x256 * scales f32 2x2 of 128x128
quantize: x u16 64 256, scales > u8 1024
  scale_layout=blocked -> x bf16 64x256, to codes e4m3 64x256 * scales e8m0 1024 of 1x32 in tiles
)");
}

TEST(QuantizeEntries, AreFollowedByOtherLayouts) {
  expect_reached(R"(
quantize: x bf16 64 256
  scale_layout=tiles_8x4 -> x bf16 64x256, to codes e4m3 64x256 * ? e8m0 64x8 of 1x32; pack_scales:
      scales ? e8m0 64x8, packed ? u8 512, layout 3, made scales e8m0 512
  scale_layout=mn_major_tma block=1x128 format=e5m2 -> x bf16 64x256, to codes e5m2 64x256 * ? f32
      64x2 of 1x128; pack_scales: scales ? f32 64x2, packed ? f32 2x64, made scales f32 2x64
  scale_layout=mn_major_tma block=1x128 power_of_2=none -> x bf16 64x256, to codes e4m3 64x256 * ?
      f32 64x2 of 1x128; pack_scales: scales ? f32 64x2, packed ? f32 2x64, made scales f32 2x64
  scale_layout=packed_ue8m0 -> x bf16 64x256, to codes e4m3 64x256 * ? e8m0 64x8 of 1x32;
      pack_scales: scales ? e8m0 64x8, packed ? i32 2x64, layout 2, made scales i32 2x64
  scale_layout=packed_ue8m0 block=1x128 power_of_2=none -> quantize: scale_layout: packed_ue8m0
      keeps exponents alone, needs e8m0 scales or power_of_2=up
  scale_layout=packed_ue8m0 block=1x128 power_of_2=up -> x bf16 64x256, to codes e4m3 64x256 * ? f32
      64x2 of 1x128, rule 0/1e-12/0/2/0; pack_scales: scales ? f32 64x2, packed ? i32 1x64, layout
      2, made scales i32 1x64
  scale_layout=blocked transpose=true block=32x1 -> x bf16 64x256, to codes e4m3 64x256 kept as e4m3
      256x64 by steps * ? e8m0 2x256 by steps of 32x1; swizzle_scales: scales ? e8m0 256x2, blocked
      ? u8 1024, made scales e8m0 1024
quantize: x bf16 3 64 256
  scale_layout=packed_ue8m0 -> x bf16 3x64x256, to codes e4m3 3x64x256 * ? e8m0 3x64x8 of 1x32;
      pack_scales: scales ? e8m0 3x64x8, packed ? i32 3x2x64, layout 2, made scales i32 3x2x64
  scale_layout=blocked transpose=true block=32x1 -> x bf16 3x64x256, to codes e4m3 3x64x256 kept as
      e4m3 3x256x64 by steps * ? e8m0 3x2x256 by steps of 32x1; swizzle_scales: scales ? e8m0
      3x256x2, blocked ? u8 3x1024, layout 3, made scales e8m0 3x1024
quantize: x bf16 64 256, given f32 64 2
  scale_layout=packed_ue8m0 block=1x128 power_of_2=none -> x bf16 64x256, to codes e4m3 64x256 * ?
      f32 64x2 of 1x128, given f32 64x2; pack_scales: scales ? f32 64x2, packed ? i32 1x64, layout
      2, made scales i32 1x64
)");
}

TEST(QuantizeEntries, ComeBackByBlocksOfTheShape) {
  expect_reached(R"(
dequantize: codes u8 64 256, scales f32 64 2
  -> from codes e4m3 64x256 * scales f32 64x2 of 1x128, x bf16 64x256
  transpose=true -> dequantize: scales: found f32 [2, 64], needs [256, 2]
dequantize: codes u8 64 256, scales f32 1 2
  -> from codes e4m3 64x256 * scales f32 1x2 of 128x128, x bf16 64x256
dequantize: codes u8 64 256, scales f32 64 4
  block=1x64 -> from codes e4m3 64x256 * scales f32 64x4 of 1x64, x bf16 64x256
  block=1x128 -> dequantize: scales: found f32 [64, 4], needs [64, 2]
dequantize: codes u8 64 256, scales f32 64 3
  -> dequantize: scales: found f32 [64, 3], needs [64, 2] for 1x128, [1, 2] for 128x128, [64, 1] for
      1xK, [1, 1] for RxK, [64, 4] for 1x64, [64, 8] for 1x32, [64, 1] for 1x256, [64, 1] for 1x512,
      or block
dequantize: codes u8 64 256, scales f32 2 2, group_ends = 32 64
  block=128x128 -> from codes e4m3 64x256 * scales f32 2x2 of 128x128, group_ends i32 2, x bf16
      64x256
dequantize: codes u8 64 256, scales f32 64 2, group_ends = 32 64
  -> dequantize: group_ends: found with block 1x32, needs blocks of more than one row
dequantize: codes u8 256 64, scales u8 256 2
  transpose=true block=32x1 -> from codes e4m3 64x256 by steps * scales e8m0 2x256 by steps of 32x1,
      x bf16 64x256
dequantize: codes u8 3 256 64, scales u8 3 256 2
  transpose=true block=32x1 -> from codes e4m3 3x64x256 by steps * scales e8m0 3x2x256 by steps of
      32x1, x bf16 3x64x256
dequantize: codes u8 64, scales u8 64 8
  transpose=false block=32x1 -> dequantize: x: found bf16 [64], needs rank 2 to 4
  transpose=true block=32x1 -> dequantize: x: found bf16 [64], needs rank 2 to 4
dequantize: codes u8 64 256, scales u8 64
  transpose=false block=32x1 -> dequantize: scales: found e8m0 [64], needs [2, 256]
  transpose=true block=32x1 -> dequantize: scales: found e8m0 [64], needs [2, 256]
dequantize: codes u8 256, scales f32 7
  -> dequantize: x: found bf16 [256], needs rank 2 to 4
)");
}

TEST(QuantizeEntries, OfGatesReachTheBackend) {
  expect_reached(R"(
swiglu_quantize: x u16 64 256
  -> x bf16 64x256, to codes e4m3 64x128 * scales e8m0 64x4 of 1x32
swiglu_quantize: x u16 64 256, probs i32 64, group_ends = 5 64
  block=128x128 format=e5m2 halves=gate_only rounding=bf16 epsilon=0.5 -> x bf16 64x256, probs f32
      64, group_ends i32 2, rounding bf16, to codes e5m2 64x256 * scales f32 2x2 of 128x128, rule
      0/0.5/0/0/0, gate 0/3/0/1/inf/0/0
swiglu_quantize: x f16 64 256
  rounding=f16 -> x f16 64x256, rounding f16, to codes e4m3 64x128 * scales e8m0 64x4 of 1x32
  rounding=none -> x f16 64x256, to codes e4m3 64x128 * scales e8m0 64x4 of 1x32
swiglu_quantize: x f32 64
  -> swiglu_quantize: x: found rank 1, needs rank 2
swiglu_quantize_backward: x u16 64 256, dy i32 64 128
  rounding=bf16 halves=up_first -> x bf16 64x256, dy f32 64x128, rounding bf16, to codes e4m3 64x256
      * scales e8m0 64x8 of 1x32, gate 0/1/0/1/inf/0/0
swiglu_quantize_backward: x u16 64 256, dy i32 64 128, probs i32 64, group_ends = 32 64
  block=32x1 -> x bf16 64x256, probs f32 64, dy f32 64x128, group_ends i32 2, to codes e4m3 64x256 *
      scales e8m0 2x256 of 32x1, dprobs f32 64
swiglu_quantize_backward: x f32 64, dy i32 64 128
  -> swiglu_quantize_backward: x: found rank 1, needs rank 2
)");
}

TEST(QuantizeEntries, OfDelayedScalesReachTheBackend) {
  expect_reached(R"(
delayed_scale: history i32 4, scale i32 1
  -> history f32 4, scale f32 1, next_history f32 4, next_scale f32 1
  margin=64 -> history f32 4, scale f32 1, margin 64, next_history f32 4, next_scale f32 1
  margin=-65 -> delayed_scale: margin: found -65, needs a number from -64 to 64
  margin=65 -> delayed_scale: margin: found 65, needs a number from -64 to 64
delayed_scale: history i32 4, scale i32 1, x u16 3 5
  format=e5m2 amax=most_recent margin=-64 -> x bf16 3x5, history f32 4, scale f32 1, format e5m2,
      amax 1, margin -64, next_history f32 4, next_scale f32 1
)");
}

}  // namespace
}  // namespace mxo
