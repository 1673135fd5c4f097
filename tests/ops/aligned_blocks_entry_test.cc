// The catalogue's blocks of slots by expert: lengths that follow, and what reaches the backend.
#include "ops/aligned_blocks.h"

#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

/// Three tokens of two slots, all of expert 0.
struct AlignEntry : testing::Test {
  EntryCalls<MoeAlignBlockSize> call{"moe_align_block_size"};

  AlignEntry() { call.add("experts", Dtype::i32, {3, 2}); }
  /// Lengths of the outputs "sorted_token_ids / expert_ids".
  std::string lengths(const Settings& settings) {
    const MoeAlignBlockSize& op = call.op(settings);
    return std::to_string(op.sorted_token_ids.extent[0]) + " / " +
           std::to_string(op.expert_ids.extent[0]);
  }
};

TEST_F(AlignEntry, OperandsReachTheBackend) {
  const MoeAlignBlockSize& op = call.op({{"experts", "3"}});
  EXPECT_EQ(call.told(op.experts), "experts i32 [3, 2]");
  EXPECT_FALSE(op.expert_map.given());
  EXPECT_EQ(op.block, 64);
  EXPECT_EQ(op.unused, 0);
  EXPECT_EQ(call.told(op.sorted_token_ids), "sorted_token_ids i32 [195]") << "6 + 3 * 63";
  EXPECT_EQ(call.told(op.expert_ids), "expert_ids i32 [4]");
  EXPECT_EQ(call.told(op.num_tokens_post_pad), "num_tokens_post_pad i32 [1]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [3]");
  call.numbers("expert_map", {0, 1, -1});
  const MoeAlignBlockSize& other = call.op({{"experts", "3"}, {"unused", "-1"}, {"block", "4"}});
  EXPECT_EQ(call.told(other.expert_map), "expert_map i32 [3]");
  EXPECT_EQ(other.unused, -1);
  EXPECT_EQ(other.block, 4);
}

TEST_F(AlignEntry, LengthsFollowFromTheBlock) {
  EXPECT_EQ(lengths({{"experts", "3"}, {"block", "4"}}), "15 / 4");
  EXPECT_EQ(lengths({{"experts", "3"}, {"block", "4"}, {"pad_sorted_ids", "true"}}), "16 / 4");
  EXPECT_EQ(lengths({{"experts", "3"}, {"block", "4"}, {"length", "17"}}), "17 / 5");
  EXPECT_EQ(lengths({{"experts", "3"}, {"block", "1"}}), "6 / 6");
  EXPECT_EQ(lengths({{"experts", "1"}, {"block", "1048576"}}), "1048581 / 2");
  EXPECT_EQ(call.said({{"experts", "1"}, {"block", "1048577"}}),
            "moe_align_block_size: block: found 1048577, needs 0 to 1048576");
  EXPECT_TRUE(call.said({{"experts", "1"}, {"block", "0"}})
                  .starts_with("moe_align_block_size: block: found 0, needs "));
  EXPECT_EQ(call.said({{"experts", "1"}, {"length", "-1"}}),
            "moe_align_block_size: length: found -1, needs 0 to 2147483647");
  EXPECT_EQ(call.said(), "moe_align_block_size: experts: missing, needs 0 to 1048576");
  EXPECT_EQ(call.said_of("experts", Dtype::i32, {3}, {{"experts", "3"}}),
            "moe_align_block_size: experts: found i32 [3], needs rank 2");
}

TEST(BlocksToExpertsEntry, OperandsReachTheBackend) {
  EntryCalls<BlocksToExperts> call{"blocks_to_experts"};
  call.add("sorted_token_ids", Dtype::i32, {128});
  call.add("expert_ids", Dtype::i32, {2});
  call.add("num_tokens_post_pad", Dtype::i32, {1});
  const BlocksToExperts& op = call.op({{"tokens", "3"}});
  EXPECT_EQ(op.block, 64);
  EXPECT_EQ(call.told(op.sorted_token_ids), "sorted_token_ids i32 [128]");
  EXPECT_EQ(call.told(op.expert_ids), "expert_ids i32 [2]");
  EXPECT_EQ(call.told(op.num_tokens_post_pad), "num_tokens_post_pad i32 [1]");
  EXPECT_EQ(call.told(op.experts), "experts i32 [3, 1]");
  EXPECT_EQ(call.told(call.op({{"tokens", "3"}, {"top_k", "2"}}).experts), "experts i32 [3, 2]");
  EXPECT_EQ(call.said({{"tokens", "129"}}), "blocks_to_experts: tokens: found 129, needs 0 to 128");
  EXPECT_EQ(call.said(), "blocks_to_experts: tokens: missing, needs 0 to 128");
  EXPECT_EQ(call.said({{"top_k", "129"}}), "blocks_to_experts: top_k: found 129, needs 0 to 128");
  EXPECT_EQ(call.said_of("sorted_token_ids", Dtype::i32, {2, 64}, {{"tokens", "3"}}),
            "blocks_to_experts: sorted_token_ids: found i32 [2, 64], needs rank 1");
  call.add("sorted_token_ids", Dtype::i32, {126});
  call.add("expert_ids", Dtype::i32, {3});
  EXPECT_EQ(call.op({{"tokens", "3"}, {"block", "42"}}).block, 42);
}

TEST(BlocksToExpertsEntry, NoRowsAreOfNoTokens) {
  EntryCalls<BlocksToExperts> call{"blocks_to_experts"};
  call.add("sorted_token_ids", Dtype::i32, {0});
  call.add("expert_ids", Dtype::i32, {0});
  call.add("num_tokens_post_pad", Dtype::i32, {1});
  EXPECT_EQ(call.told(call.op({{"tokens", "0"}}).experts), "experts i32 [0, 1]");
  EXPECT_EQ(call.said({{"tokens", "0"}, {"top_k", "2"}}),
            "blocks_to_experts: top_k: found 2, needs 0 to 1");
}

}  // namespace
}  // namespace mxo
