// Maps of rows, experts and blocks with one field or one entry wrong: refused, by name; in views
// what lies beside is not read.
#include <gtest/gtest.h>

#include "ops/aligned_blocks.h"
#include "ops/expert_maps.h"
#include "ops/permute.h"
#include "ops/row_maps.h"
#include "ops/scaled_tensor.h"
#include "tests/ops/right_call.h"
#include "tests/support/random_tensors.h"
#include "tests/support/refusal.h"

namespace mxo::row_maps_test {
namespace {

/// What `call` says of an operator once `set` has written other entries into a tensor of its own.
template <typename Op>
std::string with(const RightCall<Op>& call, Tensor& t, const std::vector<std::int32_t>& values) {
  const Tensor before = t;
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  const std::string said = call.complaint(call.op);
  std::copy_n(before.as<std::int32_t>(), before.elements(), t.as<std::int32_t>());
  return said;
}

void says(const std::string& said, const std::string& words) {
  EXPECT_NE(said.find(words), std::string::npos) << said;
}

TEST(RowMapChecks, RowsNameGroupsInOrder) {
  Tensor rows = test::integers_of({0, -1, 1, 1}), ends(Dtype::i32, {2});
  using R = RowsToGroups;
  const RightCall<R> call{
      "rows_to_groups", rows_to_groups, {rows.operand(), ends.result()}, {"m_indices.0"}};
  call.expect_that_checks_see_all();
  EXPECT_EQ(with(call, rows, {-1, -1, -1, -1}), "");
  EXPECT_EQ(with(call, rows, {1, 1, 1, 1}), "");
  says(with(call, rows, {0, -2, 1, 1}),
       "m_indices: entry 1 is -2, needs -1 or a group from 0 to 1");
  says(with(call, rows, {0, 1, 0, 1}), "m_indices: entry 2 is 0, needs -1 or a group from 1 to 1");
  says(with(call, rows, {0, 0, 0, 2}), "m_indices: entry 3 is 2");
  says(with(call, rows, {2}), "m_indices: entry 0 is 2, needs -1 or a group from 0 to 1");
}

TEST(RowMapChecks, CountsFitTheirGroups) {
  Tensor ends = test::integers_of({3, 6}), counts = test::integers_of({3, 2}),
         rows(Dtype::i32, {6});
  using G = GroupsToRows;
  const RightCall<G> call{
      "groups_to_rows", groups_to_rows, {ends.operand(), counts.operand(), rows.result()}};
  call.expect_that_checks_see_all();
  EXPECT_EQ(with(call, counts, {0, 3}), "");
  says(with(call, counts, {4, 0}), "counts: entry 0 is 4, needs 0 to 3");
  says(with(call, counts, {0, 4}), "counts: entry 1 is 4, needs 0 to 3");
  says(with(call, counts, {0, -1}), "counts: entry 1 is -1, needs 0 to 3");
}

TEST(RowMapChecks, MaskedRowsFitTheirGroups) {
  Tensor x(Dtype::bf16, {6, 4}), ends = test::integers_of({2, 5}), y(Dtype::bf16, {2, 3, 4});
  Tensor counts(Dtype::i32, {2});
  using To = GroupsToMasked;
  const RightCall<To> to{"groups_to_masked",
                         groups_to_masked,
                         {x.operand(), ends.operand(), y.result(), counts.result()},
                         {"x.0"}};
  to.expect_that_checks_see_all();
  EXPECT_EQ(with(to, ends, {3, 6}), "");
  says(with(to, ends, {2, 6}), "max_rows: found 3, needs the 4 rows of group 1");
  says(with(to, ends, {4, 6}), "max_rows: found 3, needs the 4 rows of group 0");
  using From = MaskedToGroups;
  Tensor given = test::integers_of({3, 3}), out(Dtype::i32, {2});
  const RightCall<From> from{"masked_to_groups",
                             masked_to_groups,
                             {y.operand(), given.operand(), x.result(), out.result()}};
  from.expect_that_checks_see_all();
  says(with(from, given, {4, 0}), "counts: entry 0 is 4, needs 0 to 3");
  Tensor few(Dtype::bf16, {5, 4});
  from.expect_refusal([&](From& f) { f.x = few.result(); },
                      "rows: found 5, needs at least the 6 that are counted");
}

TEST(ExpertMapChecks, ExpertsAreMapped) {
  Tensor experts = test::integers_of({3, 2}, {0, 1, 2, -1, 3, 0}),
         map = test::integers_of({0, -1, 1, 1});
  Tensor weights(Dtype::f32, {3, 2}), local(Dtype::i32, {3, 2}), counts(Dtype::i32, {2});
  using M = MapExperts;
  M op{experts.operand(), map.operand(), weights.operand(), local.result(), counts.result()};
  op.drop = CapacityDrop::weight;
  const RightCall<M> call{"map_experts", map_experts, op};
  call.expect_that_checks_see_all();
  says(with(call, map, {0, -2, 1, 1}), "expert_map: entry 1 is -2, needs -1 or an expert below 2");
  says(with(call, map, {0, 2, 1, 1}), "expert_map: entry 1 is 2, needs -1 or an expert below 2");
  says(with(call, experts, {0, 4}), "experts: entry (0, 1) is 4, needs -1 or an expert below 4");
  says(with(call, experts, {-2, 1}), "experts: entry (0, 0) is -2");
  const std::string exactly = "weights: needs to be given exactly when drop is weight";
  call.expect_refusal([](M& m) { m.weights = {}; }, exactly);
  call.expect_refusal([](M& m) { m.drop = CapacityDrop::position; }, exactly);
  call.expect_refusal([](M& m) { m.capacity = -1; },
                      "capacity: found -1, needs no negative number");
  call.expect_refusal([](M& m) { m.expert_map = {}; },
                      "experts: entry (1, 0) is 2, needs -1 or an expert below 2");
  op.capacity = 0;
  EXPECT_EQ(call.complaint(op), "");
}

TEST(ExpertMapChecks, MasksAreMadeAndRead) {
  Tensor mask(Dtype::u8, {3, 4}), probs(Dtype::f32, {3, 4});
  Tensor experts = test::integers_of({3, 2}, {0, 3, 1, -1, 2, 0}), weights(Dtype::f32, {3, 2});
  mask.as<std::uint8_t>()[1] = mask.as<std::uint8_t>()[3] = 1;
  using To = MaskToExperts;
  const RightCall<To> to{"mask_to_experts",
                         mask_to_experts,
                         {mask.operand(), probs.operand(), experts.result(), weights.result()}};
  to.expect_that_checks_see_all();
  mask.as<std::uint8_t>()[1] = 2;
  says(to.complaint(to.op), "mask: entry (0, 1) is 2, needs 0 or 1");
  mask.as<std::uint8_t>()[1] = 1;
  mask.as<std::uint8_t>()[6] = 2;
  says(to.complaint(to.op), "mask: entry (1, 2) is 2, needs 0 or 1");
  for (int i = 4; i < 7; ++i) mask.as<std::uint8_t>()[i] = 1;
  says(to.complaint(to.op), "mask: row 1 has 3 ones, needs at most 2");
  using From = ExpertsToMask;
  const RightCall<From> from{"experts_to_mask",
                             experts_to_mask,
                             {experts.operand(), weights.operand(), mask.result(), probs.result()}};
  from.expect_that_checks_see_all();
  says(with(from, experts, {0, 0}), "experts: entry (0, 1) is 0, named before");
  says(with(from, experts, {0, 3, 1, -1, 2, 2}), "experts: entry (2, 1) is 2, named before");
  says(with(from, experts, {0, 4}), "experts: entry (0, 1) is 4, needs -1 or an expert below 4");
  EXPECT_EQ(with(from, experts, {-1, -1, 3, 0}), "");
  EXPECT_EQ(with(from, experts, {0, 1, 0, 1}), "") << "the same experts of another token";
  from.expect_refusal([](From& f) { f.weights = {}; },
                      "probs: needs to be given exactly when weights is");
  from.expect_refusal([](From& f) { f.probs = {}; },
                      "probs: needs to be given exactly when weights is");
  EXPECT_EQ(from.complaint({experts.operand(), {}, mask.result(), {}}), "");
}

TEST(AlignedBlockChecks, BlocksTakeTheirSlots) {
  Tensor experts = test::integers_of({3, 2}, {0, 1, 1, -1, 1, 0}), map = test::integers_of({5, -1});
  Tensor ids(Dtype::i32, {8}), blocks(Dtype::i32, {2}), rows(Dtype::i32, {1}),
      ends(Dtype::i32, {2});
  using A = MoeAlignBlockSize;
  const RightCall<A> call{"moe_align_block_size",
                          moe_align_block_size,
                          {experts.operand(), map.operand(), ids.result(), blocks.result(),
                           rows.result(), ends.result(), 4, -1},
                          {"experts.0", "experts.1"}};
  call.expect_that_checks_see_all();
  says(with(call, experts, {0, 2}), "experts: entry (0, 1) is 2, needs -1 or an expert below 2");
  says(with(call, map, {5, -2}), "expert_map: entry 1 is -2");
  EXPECT_EQ(with(call, experts, {0, -1, 1, -1, 1, -1}), "");
  for (const Index block : {Index{0}, Index{-1}, Index{1} << 31})
    call.expect_refusal([&](A& a) { a.block = block; },
                        "block: found " + std::to_string(block) + ", needs 1 to 2147483647");
  for (const Index unused : {-2, 1})
    call.expect_refusal([&](A& a) { a.unused = unused; },
                        "unused: found " + std::to_string(unused) + ", needs 0 or -1");
  call.expect_refusal([](A& a) { a.experts.extent[0] = 2147483647, a.experts.extent[1] = 1; },
                      "experts: needs fewer than 2147483647 entries");
  A bad = call.op;
  bad.unused = 0;
  EXPECT_EQ(call.complaint(bad), "");
  // Two slots of one expert and three of the other: blocks of 3 take 3 + 3, of 2 take 2 + 4.
  Tensor seven(Dtype::i32, {5}), three(Dtype::i32, {3});
  bad.block = 2;
  bad.sorted_token_ids = seven.result();
  bad.expert_ids = three.result();
  says(call.complaint(bad), "length: found 5, needs at least 6, in 32 bits");
}

TEST(AlignedBlockChecks, SlotsAreNamedOnceInWholeBlocks) {
  Tensor ids = test::integers_of({0, 3, 4, 1, 4, 4}), blocks(Dtype::i32, {3}),
         rows = test::integers_of({4});
  Tensor experts(Dtype::i32, {2, 2});
  using B = BlocksToExperts;
  const RightCall<B> call{"blocks_to_experts",
                          blocks_to_experts,
                          {ids.operand(), blocks.operand(), rows.operand(), experts.result(), 2},
                          {"sorted_token_ids.0"}};
  call.expect_that_checks_see_all();
  EXPECT_EQ(with(call, rows, {0}), "");
  EXPECT_EQ(with(call, rows, {6}), "");
  for (const std::int32_t wrong : {-2, 3, 8})
    says(with(call, rows, {wrong}),
         "num_tokens_post_pad: found " + std::to_string(wrong) + ", needs a multiple of 2 up to 6");
  says(with(call, ids, {0, 5}), "sorted_token_ids: entry 1 is 5, needs a slot below 4");
  says(with(call, ids, {0, -1}), "sorted_token_ids: entry 1 is -1, needs a slot below 4");
  says(with(call, ids, {1}), "sorted_token_ids: entry 3 is 1, a slot named before");
  EXPECT_EQ(with(call, ids, {0, 3, 4, 1, 9, 0}), "") << "past the last block nothing is read";
  call.expect_refusal([](B& b) { b.block = 0; }, "block: found 0, needs 1 to 2147483647");
  call.expect_refusal([](B& b) { b.experts.extent[0] = 2147483647, b.experts.extent[1] = 1; },
                      "experts: needs fewer than 2147483647 entries");
}

TEST(PermuteChecks, CountsAreOfRanksAndExperts) {
  Tensor counts = test::integers_of({1, 2, 0, 3, 0, 0}), indices(Dtype::i32, {12});
  Tensor sizes(Dtype::i32, {3}), ends(Dtype::i32, {3});
  using P = PermuteIndices;
  const P op{counts.operand(), indices.result(), sizes.result(), ends.result(), 3, 2, 4};
  const RightCall<P> call{"permute_indices", permute_indices, op};
  call.expect_that_checks_see_all();
  says(with(call, counts, {1, 2, -1}), "tokens_per_expert: entry 2 is -1, needs no negative count");
  says(with(call, counts, {1, 2, 0, 4}), "max_len: found 12, needs at least 16");
  Tensor one = test::integers_of({2}), size(Dtype::i32, {1}), end(Dtype::i32, {1});
  EXPECT_EQ(call.complaint({one.operand(), indices.result(), size.result(), end.result(), 1, 1, 1}),
            "");
  constexpr std::int32_t kMost = 2147483647;
  says(with(call, counts, {kMost, 1}), "needs numbers that fit 32 bits");
  const std::string each = "tokens_per_expert: found i32 [6], needs one count for each of ";
  call.expect_refusal([](P& p) { p.alignment = 0; }, "alignment: found 0, needs a positive number");
  call.expect_refusal([](P& p) { p.experts = 0; }, "experts: found 0, needs a positive number");
  call.expect_refusal([](P& p) { p.ranks = 0; }, "ranks: found 0, needs a positive number");
  call.expect_refusal([](P& p) { p.ranks = Index{1} << 62; },
                      each + "4611686018427387904 ranks and 3 experts");
  call.expect_refusal([](P& p) { p.experts = Index{1} << 62; },
                      each + "2 ranks and 4611686018427387904 experts");
  call.expect_refusal([](P& p) { p.experts = 4; }, "tokens_per_expert: found i32 [6], needs [8]");
  call.expect_refusal([](P& p) { p.alignment = Index{1} << 31; },
                      "alignment: found 2147483648, needs to fit 32 bits");
  call.expect_refusal(
      [](P& p) { p.alignment = (Index{1} << 31) - 1; },
      "tokens_per_expert: 6 tokens take 6442450941 rows, needs numbers that fit 32 bits");
}

TEST(PermuteChecks, IndicesNameRows) {
  Tensor x(Dtype::bf16, {4, 3}), y(Dtype::bf16, {5, 3}), at = test::integers_of({3, -1, 0, 2, 1});
  const RightCall<Permute> call{"permute", permute, {x.operand(), at.operand(), y.result()}};
  call.expect_that_checks_see_all();
  EXPECT_EQ(with(call, at, {3, 3, 3}), "") << "a row may go to many places";
  says(with(call, at, {4}), "indices: entry 0 is 4, needs -1 or a row below 4");
  says(with(call, at, {-2}), "indices: entry 0 is -2, needs -1 or a row below 4");
  const RightCall<Unpermute> back{"unpermute", unpermute, {y.operand(), at.operand(), x.result()}};
  back.expect_that_checks_see_all();
  EXPECT_EQ(with(back, at, {-1, -1, 0, 2, 3}), "");
  says(with(back, at, {3, 3}), "indices: entry 1 is 3, a row named before; needs distinct rows");
  says(with(back, at, {4}), "indices: entry 0 is 4");
}

constexpr Index kMost = 2147483647;

/// Of a vector all but the first and the last; of a matrix all but the last row and column.
Operand inside(const Tensor& all) {
  Operand view = all.operand();
  if (view.rank == 1) view.data = all.as<std::int32_t>() + 1;
  view.extent[0] -= view.rank == 1 ? 2 : 1;
  if (view.rank == 2) view.extent[1] -= 1;
  return view;
}

/// A view of memory that is not there.
Result nowhere(std::vector<Index> shape, std::uintptr_t at) {
  return view_of(reinterpret_cast<void*>(at << 40), Dtype::i32, shape);
}

TEST(MapViews, RowsBesideAViewAreNotRead) {
  const Tensor rows = test::integers_of({9, 0, -1, 1, 1, 9});
  const Tensor ends = test::integers_of({2, 3, 6, 99}), counts = test::integers_of({9, 3, 3, 9});
  Tensor two(Dtype::i32, {2}), six(Dtype::i32, {6}), x(Dtype::bf16, {6, 4}),
      y(Dtype::bf16, {2, 3, 4});
  EXPECT_EQ(check_refusal(rows_to_groups, {inside(rows), two.result()}), "");
  EXPECT_EQ(check_refusal(groups_to_rows, {inside(ends), inside(counts), six.result()}), "");
  EXPECT_EQ(check_refusal(groups_to_masked, {x.operand(), inside(ends), y.result(), two.result()}),
            "");
  EXPECT_EQ(
      check_refusal(masked_to_groups, {y.operand(), inside(counts), x.result(), two.result()}), "");
}

TEST(MapViews, BlocksBesideAViewAreNotRead) {
  const Tensor experts = test::integers_of({4, 3}, {0, 1, 1, 1, -1, 1, 1, 0, 1, 1, 1, 1});
  Tensor ids(Dtype::i32, {8}), blocks(Dtype::i32, {2}), rows(Dtype::i32, {1}),
      ends(Dtype::i32, {2});
  const MoeAlignBlockSize align{
      inside(experts), {}, ids.result(), blocks.result(), rows.result(), ends.result(), 4, -1};
  EXPECT_EQ(check_refusal(moe_align_block_size, align), "");
  const Tensor sorted = test::integers_of({7, 0, 3, 4, 1, 7}), taken = test::integers_of({3, 4, 3});
  Tensor slots(Dtype::i32, {2, 2});
  EXPECT_EQ(check_refusal(blocks_to_experts,
                          {inside(sorted), blocks.operand(), inside(taken), slots.result(), 2}),
            "");
}

TEST(MapViews, MasksAreReadToTheirLastExpert) {
  Tensor mask(Dtype::u8, {2, 4}), experts(Dtype::i32, {2, 1});
  mask.as<std::uint8_t>()[7] = 2;
  EXPECT_EQ(check_refusal(mask_to_experts, {mask.operand(), {}, experts.result(), {}}),
            "mask_to_experts: mask: entry (1, 3) is 2, needs 0 or 1");
}

TEST(MapViews, EntriesOfExpertsFit32Bits) {
  Tensor counts(Dtype::i32, {2});
  const auto mapped = [&](Index entries) {
    return check_refusal(
        map_experts,
        {to_read(nowhere({entries, 1}, 1)), {}, {}, nowhere({entries, 1}, 2), counts.result()},
        false);
  };
  EXPECT_EQ(mapped(kMost), "");
  EXPECT_EQ(mapped(kMost + 1), "map_experts: experts: needs at most 2147483647 entries");
}

}  // namespace
}  // namespace mxo::row_maps_test
