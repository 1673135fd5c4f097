// The catalogue's moves of rows: padding of groups and permutations, as they reach the backend.
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(MovementEntries, GroupsArePadded) {
  EntryCalls<PadGroups> call{"pad_groups"};
  call.add("x", Dtype::e5m2, {5, 40});
  call.numbers("group_ends", {2, 3, 5});
  const PadGroups& op = call.op();
  EXPECT_EQ(op.alignment, 32);
  EXPECT_EQ(call.told(op.x), "x e5m2 [5, 40]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [3]");
  EXPECT_EQ(call.told(op.y), "y e5m2 [128, 40]") << "101 rounded up";
  EXPECT_EQ(call.told(op.padded_starts), "padded_starts i32 [3]");
  EXPECT_EQ(call.told(op.padded_ends), "padded_ends i32 [3]");
  EXPECT_EQ(call.told(call.op({{"alignment", "7"}}).y), "y e5m2 [28, 40]");
  EXPECT_EQ(call.backend.kept[0].alignment, 7);
  EXPECT_EQ(call.said({{"alignment", "0"}}),
            "pad_groups: alignment: found 0, needs a positive number");
  call.homes.emplace("y", Tensor(Dtype::e5m2, {128, 40}));
  EXPECT_EQ(call.said_of("x", Dtype::e5m2, {5}), "pad_groups: x: found e5m2 [5], needs rank 2");
  EXPECT_EQ(call.said_of("group_ends", Dtype::i32, {1, 3}),
            "pad_groups: group_ends: found i32 [1, 3], needs rank 1");
}

TEST(MovementEntries, PaddingIsTakenOut) {
  EntryCalls<UnpadGroups> call{"unpad_groups"};
  call.add("y", Dtype::e5m2, {64, 6});
  call.numbers("group_ends", {2, 3});
  call.numbers("padded_starts", {0, 32});
  const UnpadGroups& op = call.op({{"rows", "5"}});
  EXPECT_EQ(call.told(op.y), "y e5m2 [64, 6]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(op.padded_starts), "padded_starts i32 [2]");
  EXPECT_EQ(call.told(op.x), "x e5m2 [5, 6]");
  EXPECT_EQ(call.told(call.op().x), "x e5m2 [64, 6]") << "as many as of y";
  EXPECT_EQ(call.said({{"rows", "-1"}}), "unpad_groups: rows: found -1, needs 0 to 2147483647");
  EXPECT_EQ(call.said({{"rows", "2147483648"}}),
            "unpad_groups: rows: found 2147483648, needs 0 to 2147483647");
  call.homes.emplace("x", Tensor(Dtype::e5m2, {64, 6}));
  EXPECT_EQ(call.said_of("y", Dtype::e5m2, {64}), "unpad_groups: y: found e5m2 [64], needs rank 2");
}

TEST(MovementEntries, RowsMayBeAsManyAs32BitsHold) {
  EntryCalls<UnpadGroups> call{"unpad_groups"};
  call.add("y", Dtype::e5m2, {64, 0});
  call.add("group_ends", Dtype::i32, {0});
  call.add("padded_starts", Dtype::i32, {0});
  EXPECT_EQ(call.told(call.op({{"rows", "2147483647"}}).x), "x e5m2 [2147483647, 0]");
  EXPECT_EQ(call.told(call.op({{"rows", "0"}}).x), "x e5m2 [0, 0]");
}

TEST(MovementEntries, ReceivedRowsHavePlaces) {
  EntryCalls<PermuteIndices> call{"permute_indices"};
  call.numbers("tokens_per_expert", {3});
  const PermuteIndices& op = call.op({{"max_len", "40"}});
  EXPECT_EQ(op.experts, 1);
  EXPECT_EQ(op.ranks, 1);
  EXPECT_EQ(op.alignment, 32);
  EXPECT_EQ(call.told(op.tokens_per_expert), "tokens_per_expert i32 [1]");
  EXPECT_EQ(call.told(op.indices), "indices i32 [40]");
  EXPECT_EQ(call.told(op.sizes), "sizes i32 [1]");
  EXPECT_EQ(call.told(op.ends), "ends i32 [1]");
  call.numbers("tokens_per_expert", {3, 0, 1, 2, 0, 5});
  const PermuteIndices& other =
      call.op({{"experts", "3"}, {"ranks", "2"}, {"alignment", "8"}, {"max_len", "24"}});
  EXPECT_EQ(other.experts, 3);
  EXPECT_EQ(other.ranks, 2);
  EXPECT_EQ(other.alignment, 8);
  EXPECT_EQ(call.told(other.sizes), "sizes i32 [3]");
  EXPECT_EQ(call.told(other.ends), "ends i32 [3]");
  call.numbers("tokens_per_expert", {3});
  EXPECT_EQ(call.said(), "permute_indices: max_len: found 0, needs at least 32");
  for (const char* key : {"experts", "ranks", "max_len"}) {
    EXPECT_EQ(call.said({{key, "-1"}}),
              "permute_indices: " + std::string(key) + ": found -1, needs 0 to 2147483647");
  }
}

TEST(MovementEntries, RowsAreGathered) {
  EntryCalls<Permute> call{"permute"};
  call.add("x", Dtype::f16, {5, 6});
  call.numbers("indices", {4, -1, 0});
  const Permute& op = call.op();
  EXPECT_EQ(call.told(op.x), "x f16 [5, 6]");
  EXPECT_EQ(call.told(op.indices), "indices i32 [3]");
  EXPECT_EQ(call.told(op.y), "y f16 [3, 6]");
}

TEST(MovementEntries, RowsAreScattered) {
  EntryCalls<Unpermute> call{"unpermute"};
  call.add("y", Dtype::f16, {3, 6});
  call.numbers("indices", {2, -1, 0});
  const Unpermute& op = call.op();
  EXPECT_EQ(call.told(op.y), "y f16 [3, 6]");
  EXPECT_EQ(call.told(op.indices), "indices i32 [3]");
  EXPECT_EQ(call.told(op.x), "x f16 [3, 6]") << "as many as of y";
  EXPECT_EQ(call.told(call.op({{"rows", "5"}}).x), "x f16 [5, 6]");
}

}  // namespace
}  // namespace mxo
