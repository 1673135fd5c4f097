// The catalogue's maps of rows, masks and experts: what of a call reaches the backend.
#include "ops/row_maps.h"

#include <limits>

#include "ops/expert_maps.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(RowMapEntries, RowsHaveGroups) {
  EntryCalls<RowsToGroups> call{"rows_to_groups"};
  call.numbers("m_indices", {0, 0, 2});
  EXPECT_EQ(call.told(call.op({{"experts", "3"}}).m_indices), "m_indices i32 [3]");
  EXPECT_EQ(call.told(call.backend.kept[0].group_ends), "group_ends i32 [3]");
  EXPECT_EQ(call.op({{"experts", "1048576"}}).group_ends.extent[0], 1048576);
  EXPECT_EQ(call.said({{"experts", "1048577"}}),
            "rows_to_groups: experts: found 1048577, needs 0 to 1048576");
  EXPECT_EQ(call.said({{"experts", "-1"}}),
            "rows_to_groups: experts: found -1, needs 0 to 1048576");
  EXPECT_EQ(call.said(), "rows_to_groups: experts: missing, needs 0 to 1048576");
  call.numbers("m_indices", {-1});
  EXPECT_EQ(call.op({{"experts", "0"}}).group_ends.extent[0], 0);
}

TEST(RowMapEntries, GroupsBecomeMatrices) {
  EntryCalls<GroupsToMasked> call{"groups_to_masked"};
  call.add("x", Dtype::f16, {5, 6});
  call.numbers("group_ends", {2, 3});
  const GroupsToMasked& op = call.op({{"max_rows", "4"}});
  EXPECT_EQ(call.told(op.x), "x f16 [5, 6]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(op.y), "y f16 [2, 4, 6]");
  EXPECT_EQ(call.told(op.counts), "counts i32 [2]");
  EXPECT_EQ(call.said(), "groups_to_masked: max_rows: missing, needs 0 to 2147483647");
  call.homes.emplace("y", Tensor(Dtype::f16, {2, 4, 6}));
  EXPECT_EQ(call.said_of("x", Dtype::f16, {5}, {{"max_rows", "4"}}),
            "groups_to_masked: x: found f16 [5], needs rank 2");
  EXPECT_EQ(call.said_of("group_ends", Dtype::i32, {1, 2}, {{"max_rows", "4"}}),
            "groups_to_masked: group_ends: found i32 [1, 2], needs rank 1");
}

TEST(RowMapEntries, MatricesBecomeGroups) {
  EntryCalls<MaskedToGroups> call{"masked_to_groups"};
  call.add("y", Dtype::f16, {2, 4, 6});
  call.numbers("counts", {3, 1});
  const MaskedToGroups& op = call.op();
  EXPECT_EQ(call.told(op.y), "y f16 [2, 4, 6]");
  EXPECT_EQ(call.told(op.counts), "counts i32 [2]");
  EXPECT_EQ(call.told(op.x), "x f16 [8, 6]") << "room for all";
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(call.op({{"rows", "5"}}).x), "x f16 [5, 6]");
  call.homes.emplace("x", Tensor(Dtype::f16, {8, 6}));
  EXPECT_EQ(call.said_of("y", Dtype::f16, {2, 4}),
            "masked_to_groups: y: found f16 [2, 4], needs rank 3");
}

TEST(RowMapEntries, ExpertsAreMapped) {
  EntryCalls<MapExperts> call{"map_experts"};
  call.add("experts", Dtype::i32, {3, 2});
  const MapExperts& op = call.op({{"experts", "4"}});
  EXPECT_EQ(call.told(op.experts), "experts i32 [3, 2]");
  EXPECT_FALSE(op.expert_map.given());
  EXPECT_FALSE(op.weights.given());
  EXPECT_EQ(op.capacity, std::numeric_limits<Index>::max());
  EXPECT_EQ(op.drop, CapacityDrop::position);
  EXPECT_EQ(call.told(op.local), "local i32 [3, 2]");
  EXPECT_EQ(call.told(op.tokens_per_expert), "tokens_per_expert i32 [4]");
  call.numbers("expert_map", {1, -1});
  call.add("weights", Dtype::i32, {3, 2});
  const MapExperts& other = call.op({{"experts", "4"}, {"capacity", "2"}, {"drop", "weight"}});
  EXPECT_EQ(call.told(other.expert_map), "expert_map i32 [2]");
  EXPECT_EQ(call.told(other.weights), "weights f32 [3, 2]");
  EXPECT_EQ(other.capacity, 2);
  EXPECT_EQ(other.drop, CapacityDrop::weight);
  EXPECT_EQ(call.said(), "map_experts: experts: missing, needs 0 to 1048576");
}

TEST(RowMapEntries, MasksBecomeExperts) {
  EntryCalls<MaskToExperts> call{"mask_to_experts"};
  call.add("mask", Dtype::boolean, {3, 5});
  const MaskToExperts& op = call.op({{"top_k", "5"}});
  EXPECT_EQ(call.told(op.mask), "mask u8 [3, 5]");
  EXPECT_FALSE(op.probs.given());
  EXPECT_FALSE(op.weights.given());
  EXPECT_EQ(call.made(), "experts i32 [3, 5]");
  EXPECT_EQ(call.said({{"top_k", "6"}}), "mask_to_experts: top_k: found 6, needs 0 to 5");
  call.add("probs", Dtype::i32, {3, 5});
  const MaskToExperts& weighed = call.op({{"top_k", "2"}});
  EXPECT_EQ(call.told(weighed.probs), "probs f32 [3, 5]");
  EXPECT_EQ(call.told(weighed.experts), "experts i32 [3, 2]");
  EXPECT_EQ(call.told(weighed.weights), "weights f32 [3, 2]");
}

TEST(RowMapEntries, ExpertsBecomeMasks) {
  EntryCalls<ExpertsToMask> call{"experts_to_mask"};
  call.add("experts", Dtype::i32, {3, 1});
  const ExpertsToMask& op = call.op({{"experts", "5"}});
  EXPECT_EQ(call.told(op.experts), "experts i32 [3, 1]");
  EXPECT_FALSE(op.weights.given());
  EXPECT_EQ(call.made(), "mask u8 [3, 5]");
  EXPECT_EQ(call.told(op.mask), "mask u8 [3, 5]");
  call.add("weights", Dtype::i32, {3, 1});
  const ExpertsToMask& weighed = call.op({{"experts", "5"}});
  EXPECT_EQ(call.told(weighed.weights), "weights f32 [3, 1]");
  EXPECT_EQ(call.told(weighed.probs), "probs f32 [3, 5]");
}

}  // namespace
}  // namespace mxo
