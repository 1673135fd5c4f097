// The catalogue's quantisers, its moves of rows and maps of rows, experts and blocks, as they reach
// a backend.
#include "formats/scale_rules.h"
#include "tests/ops/entry_calls.h"

namespace mxo::quantize_entry_test {
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

TEST(MovementEntries, PadGroups) {
  expect_reached(R"(
pad_groups: x e5m2 5 40, group_ends = 2 3 5
  -> x e5m2 5x40, group_ends i32 3, y e5m2 128x40, padded_starts i32 3, padded_ends i32 3
  alignment=7 -> x e5m2 5x40, group_ends i32 3, y e5m2 28x40, padded_starts i32 3, padded_ends i32
      3, alignment 7
  alignment=0 -> pad_groups: alignment: found 0, needs a positive number
pad_groups: x e5m2 5, group_ends = 2 3 5, y > e5m2 128 40
  -> pad_groups: x: found e5m2 [5], needs rank 2
pad_groups: x e5m2 5 40, group_ends i32 1 3, y > e5m2 128 40
  -> pad_groups: group_ends: found i32 [1, 3], needs rank 1
unpad_groups: y e5m2 64 6, group_ends = 2 3, padded_starts = 0 32
  rows=5 -> y e5m2 64x6, group_ends i32 2, padded_starts i32 2, x e5m2 5x6
  -> y e5m2 64x6, group_ends i32 2, padded_starts i32 2, x e5m2 64x6
  rows=-1 -> unpad_groups: rows: found -1, needs 0 to 2147483647
  rows=2147483648 -> unpad_groups: rows: found 2147483648, needs 0 to 2147483647
unpad_groups: y e5m2 64, group_ends = 2 3, padded_starts = 0 32, x > e5m2 64 6
  -> unpad_groups: y: found e5m2 [64], needs rank 2
unpad_groups: y e5m2 64 0, group_ends i32 0, padded_starts i32 0
  rows=2147483647 -> y e5m2 64x0, group_ends i32 0, padded_starts i32 0, x e5m2 2147483647x0
  rows=0 -> y e5m2 64x0, group_ends i32 0, padded_starts i32 0, x e5m2 0x0
)");
}

TEST(MovementEntries, PermuteRows) {
  expect_reached(R"(
permute_indices: tokens_per_expert = 3
  max_len=40 -> tokens_per_expert i32 1, indices i32 40, sizes i32 1, ends i32 1
  -> permute_indices: max_len: found 0, needs at least 32
  experts=-1 -> permute_indices: experts: found -1, needs 0 to 2147483647
  ranks=-1 -> permute_indices: ranks: found -1, needs 0 to 2147483647
  max_len=-1 -> permute_indices: max_len: found -1, needs 0 to 2147483647
permute_indices: tokens_per_expert = 3 0 1 2 0 5
  experts=3 ranks=2 alignment=8 max_len=24 -> tokens_per_expert i32 6, indices i32 24, sizes i32 3,
      ends i32 3, experts 3, ranks 2, alignment 8
permute: x f16 5 6, indices = 4 -1 0
  -> x f16 5x6, indices i32 3, y f16 3x6
unpermute: y f16 3 6, indices = 2 -1 0
  -> y f16 3x6, indices i32 3, x f16 3x6
  rows=5 -> y f16 3x6, indices i32 3, x f16 5x6
)");
}

TEST(MovementEntries, MapRows) {
  expect_reached(R"(
rows_to_groups: m_indices = 0 0 2
  experts=3 -> m_indices i32 3, group_ends i32 3
  experts=1048576 -> m_indices i32 3, group_ends i32 1048576
  experts=1048577 -> rows_to_groups: experts: found 1048577, needs 0 to 1048576
  experts=-1 -> rows_to_groups: experts: found -1, needs 0 to 1048576
  -> rows_to_groups: experts: missing, needs 0 to 1048576
rows_to_groups: m_indices = -1
  experts=0 -> m_indices i32 1, group_ends i32 0
groups_to_masked: x f16 5 6, group_ends = 2 3
  max_rows=4 -> x f16 5x6, group_ends i32 2, y f16 2x4x6, counts i32 2
  -> groups_to_masked: max_rows: missing, needs 0 to 2147483647
groups_to_masked: x f16 5, group_ends = 2 3, y > f16 2 4 6
  max_rows=4 -> groups_to_masked: x: found f16 [5], needs rank 2
groups_to_masked: x f16 5 6, group_ends i32 1 2, y > f16 2 4 6
  max_rows=4 -> groups_to_masked: group_ends: found i32 [1, 2], needs rank 1
masked_to_groups: y f16 2 4 6, counts = 3 1
  -> y f16 2x4x6, counts i32 2, x f16 8x6, group_ends i32 2
  rows=5 -> y f16 2x4x6, counts i32 2, x f16 5x6, group_ends i32 2
masked_to_groups: y f16 2 4, counts = 3 1, x > f16 8 6
  -> masked_to_groups: y: found f16 [2, 4], needs rank 3
)");
}

TEST(MovementEntries, MapExperts) {
  expect_reached(R"(
map_experts: experts i32 3 2
  experts=4 -> experts i32 3x2, local i32 3x2, tokens_per_expert i32 4
  -> map_experts: experts: missing, needs 0 to 1048576
map_experts: experts i32 3 2, expert_map = 1 -1, weights i32 3 2
  experts=4 capacity=2 drop=weight -> experts i32 3x2, expert_map i32 2, weights f32 3x2, local i32
      3x2, tokens_per_expert i32 4, capacity 2, drop 1
mask_to_experts: mask bool 3 5
  top_k=5 -> mask u8 3x5, experts i32 3x5
  top_k=6 -> mask_to_experts: top_k: found 6, needs 0 to 5
mask_to_experts: mask bool 3 5, probs i32 3 5
  top_k=2 -> mask u8 3x5, probs f32 3x5, experts i32 3x2, weights f32 3x2
experts_to_mask: experts i32 3 1
  experts=5 -> experts i32 3x1, mask u8 3x5
experts_to_mask: experts i32 3 1, weights i32 3 1
  experts=5 -> experts i32 3x1, weights f32 3x1, mask u8 3x5, probs f32 3x5
)");
}

TEST(MovementEntries, AlignBlocks) {
  expect_reached(R"(
moe_align_block_size: experts i32 3 2
  experts=3 -> experts i32 3x2, sorted_token_ids i32 195, expert_ids i32 4, num_tokens_post_pad i32
      1, group_ends i32 3, block 64
  experts=3 block=4 -> experts i32 3x2, sorted_token_ids i32 15, expert_ids i32 4,
      num_tokens_post_pad i32 1, group_ends i32 3, block 4
  experts=3 block=4 pad_sorted_ids=true -> experts i32 3x2, sorted_token_ids i32 16, expert_ids i32
      4, num_tokens_post_pad i32 1, group_ends i32 3, block 4
  experts=3 block=4 length=17 -> experts i32 3x2, sorted_token_ids i32 17, expert_ids i32 5,
      num_tokens_post_pad i32 1, group_ends i32 3, block 4
  experts=3 block=1 -> experts i32 3x2, sorted_token_ids i32 6, expert_ids i32 6,
      num_tokens_post_pad i32 1, group_ends i32 3
  experts=1 block=1048576 -> experts i32 3x2, sorted_token_ids i32 1048581, expert_ids i32 2,
      num_tokens_post_pad i32 1, group_ends i32 1, block 1048576
  experts=1 block=1048577 -> moe_align_block_size: block: found 1048577, needs 0 to 1048576
  experts=1 block=0 -> moe_align_block_size: block: found 0, needs 1 to 2147483647
  experts=1 length=-1 -> moe_align_block_size: length: found -1, needs 0 to 2147483647
  -> moe_align_block_size: experts: missing, needs 0 to 1048576
moe_align_block_size: experts i32 3 2, expert_map = 0 1 -1
  experts=3 unused=-1 block=4 -> experts i32 3x2, expert_map i32 3, sorted_token_ids i32 15,
      expert_ids i32 4, num_tokens_post_pad i32 1, group_ends i32 3, block 4, unused -1
moe_align_block_size: experts i32 3
  experts=3 -> moe_align_block_size: experts: found i32 [3], needs rank 2
blocks_to_experts: sorted_token_ids i32 128, expert_ids i32 2, num_tokens_post_pad i32 1
  tokens=3 -> sorted_token_ids i32 128, expert_ids i32 2, num_tokens_post_pad i32 1, experts i32
      3x1, block 64
  tokens=3 top_k=2 -> sorted_token_ids i32 128, expert_ids i32 2, num_tokens_post_pad i32 1, experts
      i32 3x2, block 64
  -> blocks_to_experts: tokens: missing, needs 0 to 2147483647
  tokens=3 top_k=999999999 -> blocks_to_experts: top_k: found 999999999, needs 0 to 715827882
blocks_to_experts: sorted_token_ids i32 2 64, expert_ids i32 2, num_tokens_post_pad i32 1
  tokens=3 -> blocks_to_experts: sorted_token_ids: found i32 [2, 64], needs rank 1
blocks_to_experts: sorted_token_ids i32 126, expert_ids i32 3, num_tokens_post_pad i32 1
  tokens=3 block=42 -> sorted_token_ids i32 126, expert_ids i32 3, num_tokens_post_pad i32 1,
      experts i32 3x1, block 42
blocks_to_experts: sorted_token_ids i32 0, expert_ids i32 0, num_tokens_post_pad i32 1
  tokens=0 -> sorted_token_ids i32 0, expert_ids i32 0, num_tokens_post_pad i32 1, experts i32 0x1,
      block 64
  tokens=5 top_k=2 -> sorted_token_ids i32 0, expert_ids i32 0, num_tokens_post_pad i32 1, experts
      i32 5x2, block 64
)");
}

}  // namespace
}  // namespace mxo::quantize_entry_test
