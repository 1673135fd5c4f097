// Where what slots weighed cannot be measured, or is nothing that has a name.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// A call whose slot 1 is left out.
SlotsWeighed& left_out(SlotsWeighed& s) {
  s.weigh([&](Index p, Index t, Index slot) { return slot == 1 ? 0.0f : s.given(p, t, slot); });
  return s;
}

const Words kLeftOut{"slots_left_out: slot 1 is left out"};

TEST(SlotWeightsLimits, OfGradientsAreOnes) {
  SlotsWeighed s(6, 3, 24, true);
  s.weigh([](Index, Index, Index slot) { return slot == 1 ? 0.0f : 1.0f; });
  EXPECT_EQ(s.said(), kLeftOut);
  ASSERT_EQ(s.owed.size(), 2u);
  EXPECT_EQ(s.owed.begin()->first, "rank0.dx");
  s.weigh([](Index, Index, Index slot) { return slot == 0 ? 2.0f : 1.0f; });
  EXPECT_EQ(s.said(), Words{"slots_twice: slot 0 is added twice"});
}

TEST(SlotWeightsLimits, OfRightOutputsAreNotMeasured) {
  SlotsWeighed s(6, 3);
  EXPECT_EQ(s.said(), Words{});
}

TEST(SlotWeightsLimits, OfOtherCallsAreNotMeasured) {
  SlotsWeighed s(6, 3);
  left_out(s);
  s.call.op = "dispatch";
  EXPECT_EQ(s.said(), Words{});
  s.call.op = "combine";
  EXPECT_EQ(s.said(), kLeftOut);
  for (const Index p : {0, 1}) s.call.inputs.erase(s.rank(p) + "experts");
  EXPECT_EQ(s.said(), Words{});
}

TEST(SlotWeightsLimits, OfOtherOutputsAreNotMeasured) {
  SlotsWeighed s(6, 3);
  left_out(s);
  s.shown();
  const auto said = [&s] {
    std::vector<Hypothesis> list;
    add_measured_slots(*s.backend, s.call, s.outputs, list);
    return list.size();
  };
  EXPECT_EQ(said(), 1u);
  s.outputs[1].name = "rank1.scales";
  EXPECT_EQ(said(), 0u);
  s.outputs[1].name = "rank1.dx";
  EXPECT_EQ(said(), 1u);
  const Tensor wide(Dtype::f32, {6, 24});
  s.outputs[1].expected = &wide;
  EXPECT_EQ(said(), 0u);
}

TEST(SlotWeightsLimits, AreOfSixteenSlotsAtMost) {
  for (const Index slots : {16, 17}) {
    SlotsWeighed s(2, slots, 48);
    EXPECT_EQ(left_out(s).said(), slots == 16 ? kLeftOut : Words{});
  }
}

TEST(SlotWeightsLimits, NeedTwoColumnsASlotAndEight) {
  for (const Index columns : {13, 14}) {
    SlotsWeighed s(6, 3, columns);
    EXPECT_EQ(left_out(s).said(), columns == 14 ? kLeftOut : Words{});
  }
}

TEST(SlotWeightsLimits, OfRowsWithoutNumbersAreNotMeasured) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float odd : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    SlotsWeighed s(6, 3);
    left_out(s);
    s.came.at("rank1.out").as<BF16>()[30] = encode<kBF16>(odd);
    EXPECT_EQ(s.said(), Words{});
  }
  SlotsWeighed zeros(6, 3);
  zeros.weigh([](Index, Index, Index) { return 0.0f; });
  EXPECT_EQ(zeros.said(), Words{});
}

/// One element of four hundred, or of twenty-four, that no weights give; or the first of a row.
TEST(SlotWeightsLimits, OfRowsThatDoNotFitAreNotMeasured) {
  for (const Index columns : {400, 24}) {
    for (const Index at : {6, 0}) {
      SlotsWeighed s(6, 3, columns);
      left_out(s);
      EXPECT_EQ(s.said(), kLeftOut);
      BF16& element = s.came.at("rank1.out").as<BF16>()[columns + at];
      element = encode<kBF16>(decode(element) + 1);
      EXPECT_EQ(s.said(), Words{});
    }
  }
}

TEST(SlotWeightsLimits, OfNoRuleHaveNoName) {
  SlotsWeighed s(6, 3);
  s.weigh([&](Index p, Index t, Index slot) {
    return slot == 1 ? 0.4137f * s.given(p, t, slot) : s.given(p, t, slot);
  });
  EXPECT_EQ(s.said(), Words{});
}

/// Every token but one would do.
TEST(SlotWeightsLimits, AreThoseOfEveryToken) {
  SlotsWeighed s(6, 3);
  s.weigh([&](Index p, Index t, Index slot) {
    return slot != 1 ? s.given(p, t, slot) : p == 1 && t == 5 ? 0.4f * s.given(p, t, slot) : 0.0f;
  });
  EXPECT_EQ(s.said(), Words{});
}

/// A hundredth of the largest weight of a token is nothing.
TEST(SlotWeightsLimits, AreAlikeWithinAHundredth) {
  for (const Index columns : {24, 400}) {
    for (const bool near : {true, false}) {
      SlotsWeighed s(1, 3, columns);
      s.weigh([&](Index p, Index t, Index slot) {
        float most = 0;
        for (Index i = 0; i < 3; ++i) most = std::max(most, s.given(p, t, i));
        return slot == 1 ? most * (near ? 0.008f : 0.02f) : s.given(p, t, slot);
      });
      EXPECT_EQ(s.said(), near ? kLeftOut : Words{}) << columns;
    }
  }
}

/// Rows of experts that hardly differ: what each weighed is known less well.
TEST(SlotWeightsLimits, OfRowsNearlyAlikeAreLessSure) {
  SlotsWeighed s(6, 3);
  for (Index p = 0; p < 2; ++p) {
    Tensor y = s.call.input(s.rank(p) + "y");
    Scattered next(11);
    std::vector<float> same;
    for (Index c = 0; c < 24; ++c) same.push_back(next());
    for (Index i = 0; i < y.elements(); ++i) {
      const float own = decode(y.as<BF16>()[i]);
      y.as<BF16>()[i] = encode<kBF16>(same[static_cast<std::size_t>(i % 24)] + 0.05f * own);
    }
    s.call.replace(s.rank(p) + "y", std::move(y));
  }
  s.owed = run_call(*s.backend, s.call);
  EXPECT_EQ(left_out(s).said(), kLeftOut);
}

/// A column in which every expert gives zero, of sums of both signs.
TEST(SlotWeightsLimits, OfElementsOfZeroAreMeasured) {
  SlotsWeighed s(6, 3);
  for (Index p = 0; p < 2; ++p) {
    Tensor y = s.call.input(s.rank(p) + "y");
    for (Index r = 0; r < y.extent(0); ++r) y.as<BF16>()[r * 24 + 5] = BF16{};
    s.call.replace(s.rank(p) + "y", std::move(y));
  }
  s.owed = run_call(*s.backend, s.call);
  EXPECT_EQ(left_out(s).said(), kLeftOut);
}

/// Expert 1 gives zeros; where it has a slot, that is 0 or 1.
TEST(SlotWeightsLimits, OfExpertsOfZerosAreLeftOut) {
  SlotsWeighed s(2, 3);
  Tensor y = s.call.input("rank0.y");
  ASSERT_EQ(y.extent(0), 5);
  for (const Index row : {1, 2, 4}) std::fill_n(y.as<BF16>() + row * 24, 24, BF16{});
  s.call.replace("rank0.y", std::move(y));
  s.owed = run_call(*s.backend, s.call);
  s.weigh([&](Index p, Index t, Index slot) { return slot < 2 ? 0.0f : s.given(p, t, slot); });
  EXPECT_EQ(s.said(), Words{"slots_left_out: slots 0 to 1 are left out"});
}

/// A slot that weighs nothing is nothing that could be left out.
TEST(SlotWeightsLimits, OfZeroAreTheirOwn) {
  SlotsWeighed s(6, 3);
  for (Index p = 0; p < 2; ++p) {
    Tensor w = s.weights(p);
    w.as<float>()[3 * p + 2] = 0;
    s.call.replace(s.rank(p) + "weights", std::move(w));
  }
  s.owed = run_call(*s.backend, s.call);
  EXPECT_EQ(left_out(s).said(), kLeftOut);
}

TEST(SlotWeightsLimits, OfOneSlotAreMeasured) {
  SlotsWeighed s(6, 1);
  s.weigh([&](Index p, Index t, Index) { return 2 * s.given(p, t, 0); });
  EXPECT_EQ(s.said(), Words{"slots_twice: slot 0 is added twice"});
}

/// Weights that were rounded to bf16 are neither of another slot nor of another token.
TEST(SlotWeightsLimits, ThatAreNearTheirOwnAreOfNoOther) {
  SlotsWeighed s(6, 3);
  s.weigh([&](Index p, Index t, Index slot) { return decode(encode<kBF16>(s.given(p, t, slot))); });
  ASSERT_NE(s.came.at("rank0.out").as<BF16>()[0].bits, 0);
  for (const std::string& words : s.said()) {
    EXPECT_FALSE(words.starts_with("slots: ") || words.starts_with("other_token")) << words;
  }
}

}  // namespace
}  // namespace mxo
