// The catalogue's moves of rows and maps of rows, experts and blocks, as they reach a backend.
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

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
  tokens=129 -> blocks_to_experts: tokens: found 129, needs 0 to 128
  -> blocks_to_experts: tokens: missing, needs 0 to 128
  top_k=129 -> blocks_to_experts: top_k: found 129, needs 0 to 128
blocks_to_experts: sorted_token_ids i32 2 64, expert_ids i32 2, num_tokens_post_pad i32 1
  tokens=3 -> blocks_to_experts: sorted_token_ids: found i32 [2, 64], needs rank 1
blocks_to_experts: sorted_token_ids i32 126, expert_ids i32 3, num_tokens_post_pad i32 1
  tokens=3 block=42 -> sorted_token_ids i32 126, expert_ids i32 3, num_tokens_post_pad i32 1,
      experts i32 3x1, block 42
blocks_to_experts: sorted_token_ids i32 0, expert_ids i32 0, num_tokens_post_pad i32 1
  tokens=0 -> sorted_token_ids i32 0, expert_ids i32 0, num_tokens_post_pad i32 1, experts i32 0x1,
      block 64
  tokens=0 top_k=2 -> blocks_to_experts: top_k: found 2, needs 0 to 1
)");
}

}  // namespace
}  // namespace mxo
