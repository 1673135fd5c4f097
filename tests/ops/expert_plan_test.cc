// Plans of one rank of two, whose other rank says what it is told: maps, and what is refused.
#include "ops/expert_plan.h"

#include "tests/ops/told_communicator.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

/// Four experts, two a rank; three tokens of this rank, rank 1, choose two each.
struct Plans : testing::Test {
  Tensor chosen{Dtype::i32, {3, 2}};
  ToldCommunicator ranks;
  Bare machine{true};

  Plans() {
    choose({3, 0, 2, 3, 0, 2});
    other_says({4, 2, 1, 0, 5, 2});
  }
  void choose(std::vector<std::int32_t> experts) {
    std::copy(experts.begin(), experts.end(), chosen.as<std::int32_t>());
  }
  /// Experts, choices of a token, and rows for every expert; after them choices of none.
  void other_says(std::vector<Index> message, Index none = 0) {
    message.push_back(none);
    ranks.from_other.resize(message.size() * sizeof(Index));
    std::memcpy(ranks.from_other.data(), message.data(), ranks.from_other.size());
  }
  ExpertPlan plan(DispatchRows rows = DispatchRows::received, Index alignment = 1) {
    return plan_experts(machine, ranks, chosen.operand(), 4, alignment, DispatchLayout::rank_major,
                        rows);
  }
  std::string refusal(const Operand& choice, Index experts = 4, Index alignment = 1) {
    return mxo::refusal([&] {
      plan_experts(machine, ranks, choice, experts, alignment, DispatchLayout::rank_major);
    });
  }
};

std::vector<std::int32_t> words(const Tensor& t) {
  return {t.as<std::int32_t>(), t.as<std::int32_t>() + t.elements()};
}

using Words = std::vector<std::int32_t>;
using Counts = std::vector<Index>;

TEST_F(Plans, SortRowsByExpertTokenAndSlot) {
  const ExpertPlan p = plan();
  EXPECT_EQ(p.experts, 4);
  EXPECT_EQ(p.local, 2);
  EXPECT_EQ(p.ranks, 2);
  EXPECT_EQ(p.tokens, 3);
  EXPECT_EQ(p.top_k, 2);
  EXPECT_EQ(p.layout, DispatchLayout::rank_major);
  EXPECT_EQ(words(p.order.host()), (Words{0, 2, 1, 2, 0, 1}));
  EXPECT_EQ(words(p.slots.host()), (Words{4, 0, 2, 5, 1, 3}));
  EXPECT_EQ(p.slots.host().shape(), (Counts{3, 2}));
  EXPECT_EQ(p.send_counts, (Counts{2, 4}));
  EXPECT_EQ(p.receive_counts, (Counts{7, 4}));
  EXPECT_EQ(p.received, 11);
  EXPECT_EQ(words(p.tokens_per_expert), (Words{5, 2, 2, 2}));
  EXPECT_EQ(p.rows, 11);
  EXPECT_EQ(words(p.place.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_FALSE(p.indices.given()) << "rows lie as they come";
  EXPECT_EQ(words(p.group_ends.host()), (Words{0, 0})) << "no layout by expert, no groups";
}

TEST_F(Plans, OfTheWorstCaseHaveRoomForAll) {
  const ExpertPlan p = plan(DispatchRows::worst_case);
  EXPECT_EQ(p.received, 11);
  EXPECT_EQ(p.rows, 14) << "eight of the other rank and six of this";
  EXPECT_EQ(words(p.indices.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1, -1, -1}));
  EXPECT_EQ(words(p.place.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_F(Plans, SendNothingForAChoiceOfNone) {
  choose({3, -1, 2, 3, -1, -1});
  other_says({4, 2, 1, 0, 5, 0}, 2);
  const ExpertPlan p = plan();
  EXPECT_EQ(words(p.order.host()), (Words{1, 0, 1}));
  EXPECT_EQ(words(p.slots.host()), (Words{1, -1, 0, 2, -1, -1}));
  EXPECT_EQ(p.send_counts, (Counts{0, 3}));
  EXPECT_EQ(p.receive_counts, (Counts{5, 3}));
  EXPECT_EQ(plan(DispatchRows::worst_case).rows, 14) << "shapes alone: 8 choices there, 6 here";
}

TEST_F(Plans, RefuseChoicesThatAreNone) {
  const auto bad = [&](std::size_t at, std::int32_t expert) {
    Words experts = {3, 0, 2, 3, 0, 2};
    experts[at] = expert;
    choose(experts);
    return refusal(chosen.operand());
  };
  EXPECT_EQ(bad(0, -1), "");
  EXPECT_EQ(bad(0, -2), "dispatch: experts: entry (0, 0) is -2, needs -1 or one of 4 experts");
  EXPECT_EQ(bad(0, 4), "dispatch: experts: entry (0, 0) is 4, needs -1 or one of 4 experts");
  EXPECT_EQ(bad(5, 4), "dispatch: experts: entry (2, 1) is 4, needs -1 or one of 4 experts");
  const Tensor flat(Dtype::i32, {3}), wide(Dtype::i64, {3, 2});
  EXPECT_EQ(refusal(flat.operand()), "dispatch: experts: found i32 [3], needs rank 2");
  EXPECT_EQ(refusal(wide.operand()), "dispatch: experts: found i64, needs i32");
}

TEST_F(Plans, RefuseExpertsThatRanksCannotShare) {
  const Tensor none(Dtype::i32, {0, 2});
  const std::string needs = " on 2 ranks, needs a positive multiple of the ranks";
  EXPECT_EQ(refusal(none.operand(), 0), "dispatch: experts: found 0 experts" + needs);
  EXPECT_EQ(refusal(none.operand(), -2), "dispatch: experts: found -2 experts" + needs);
  EXPECT_EQ(refusal(none.operand(), 3), "dispatch: experts: found 3 experts" + needs);
  EXPECT_EQ(refusal(none.operand(), 4), "");
  AloneCommunicator alone;
  EXPECT_EQ(plan_experts(machine, alone, none.operand(), 1, 1, DispatchLayout::rank_major).local,
            1);
}

}  // namespace
}  // namespace mxo
