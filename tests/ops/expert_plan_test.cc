// Plans of one rank of two, whose other rank says what it is told: maps, and what is refused.
#include "ops/expert_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "formats/error.h"
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

TEST_F(Plans, OfTheWorstCaseHaveRoomForAll) {
  const ExpertPlan p = plan(DispatchRows::worst_case);
  EXPECT_EQ(p.received, 11);
  EXPECT_EQ(p.rows, 14) << "eight of the other rank and six of this";
  EXPECT_EQ(words(p.indices.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1, -1, -1}));
  EXPECT_EQ(words(p.place.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
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

}  // namespace
}  // namespace mxo
