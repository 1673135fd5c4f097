// What slots weighed where rows came back, measured from their sums, and how it is called.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// What is said where `times` is the factor of the weight of (rank, token, slot).
Words of_factors(const std::function<float(Index, Index, Index)>& times, Index tokens = 6,
                 Index slots = 3) {
  SlotsWeighed s(tokens, slots);
  s.weigh([&](Index p, Index t, Index slot) { return times(p, t, slot) * s.given(p, t, slot); });
  return s.said();
}

TEST(SlotWeights, OfASlotThatIsLeftOut) {
  SlotsWeighed s(6, 3);
  s.weigh([&](Index p, Index t, Index slot) { return slot == 2 ? 0.0f : s.given(p, t, slot); });
  const auto list = s.shown();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "weights=slots_left_out");
  EXPECT_EQ(list[0].phrase, "slot 2 is left out");
  EXPECT_EQ(list[0].stage, Stage::input);
  const NamedTensors made = list[0].run(*s.backend, s.call);
  ASSERT_EQ(made.size(), 2u);
  for (const auto& [name, tensor] : made) {
    EXPECT_EQ(std::memcmp(tensor.data(), s.came.at(name).data(), tensor.bytes()), 0) << name;
  }
}

TEST(SlotWeights, OfSomeTokensNameThem) {
  EXPECT_EQ(
      of_factors([](Index p, Index t, Index s) { return p == 1 && t == 3 && s == 0 ? 0 : 1; }),
      Words{"slots_left_out: slot 0 is left out, in token 3 of rank1"});
  EXPECT_EQ(
      of_factors([](Index p, Index t, Index s) {
        return (p == 1 ? t == 3 || t == 4 : t == 5) && s == t % 2 ? 0 : 1;
      }),
      Words{"slots_left_out: slot 0 of 1 token, slot 1 of 2 tokens are left out, in token 5 of "
            "rank0 and tokens 3 to 4 of rank1"});
}

/// Tokens that came right keep their weights, also where others lose the first slot.
TEST(SlotWeights, OfSomeTokensGiveWhatCame) {
  SlotsWeighed s(6, 3);
  s.weigh([&](Index p, Index t, Index slot) {
    return p == 1 && t == 3 && slot == 0 ? 0.0f : s.given(p, t, slot);
  });
  const auto list = s.shown();
  ASSERT_EQ(list.size(), 1u);
  const NamedTensors made = list[0].run(*s.backend, s.call);
  for (const auto& [name, tensor] : made) {
    EXPECT_EQ(std::memcmp(tensor.data(), s.came.at(name).data(), tensor.bytes()), 0) << name;
  }
}

/// Nine of twelve tokens are nearly all.
TEST(SlotWeights, OfMostTokensNameNone) {
  const auto first = [](Index n) {
    return of_factors([=](Index p, Index t, Index s) { return p * 6 + t < n && s == 1 ? 0 : 1; });
  };
  EXPECT_EQ(first(9), Words{"slots_left_out: slot 1 is left out"});
  EXPECT_EQ(first(8), Words{"slots_left_out: slot 1 is left out, in tokens 0 to 5 of rank0 and "
                            "tokens 0 to 1 of rank1"});
}

TEST(SlotWeights, OfSlotsThatAreAddedTwice) {
  EXPECT_EQ(of_factors([](Index, Index, Index s) { return s == 1 ? 2 : 1; }),
            Words{"slots_twice: slot 1 is added twice"});
  EXPECT_EQ(of_factors([](Index, Index, Index s) { return s == 1 ? 1 : 2; }),
            Words{"slots_twice: slots 0 and 2 are added twice"});
}

/// Expert 1 is slot 1 - t - p of a token, where it has one.
TEST(SlotWeights, OfAnExpertNameIt) {
  const auto of_expert = [](Index tokens) {
    return of_factors(
        [=](Index p, Index t, Index s) { return (t + s + p) % 4 == 1 && t < tokens ? 0 : 1; });
  };
  EXPECT_EQ(of_expert(6), Words{"slots_left_out: rows of expert 1 are left out"});
  const auto of_first = [](Index tokens) {
    return of_factors(
        [=](Index p, Index t, Index s) { return p == 0 && t < tokens && t + s == 1 ? 0 : 1; });
  };
  EXPECT_EQ(of_first(2), Words{"slots_left_out: rows of expert 1 are left out, in tokens 0 to 1 "
                               "of rank0"});
  EXPECT_EQ(of_first(1), Words{"slots_left_out: slot 1 is left out, in token 0 of rank0"})
      << "one token is of no expert";
}

TEST(SlotWeights, OfOtherSlots) {
  const auto mapped = [](std::vector<Index> from) {
    SlotsWeighed s(6, static_cast<Index>(from.size()));
    s.weigh([&](Index p, Index t, Index slot) {
      return s.given(p, t, from[static_cast<std::size_t>(slot)]);
    });
    return s.said();
  };
  EXPECT_EQ(mapped({1, 0, 2}), Words{"slots: the weights of slots 0 and 1 change places"});
  EXPECT_EQ(mapped({0, 2, 1}), Words{"slots: the weights of slots 1 and 2 change places"});
  EXPECT_EQ(mapped({0, 0, 0}), Words{"slots: slot 1 takes the weight of slot 0, slot 2 takes the "
                                     "weight of slot 0"});
  EXPECT_EQ(mapped({1, 2, 0}), Words{"slots: slot 0 takes the weight of slot 1, slot 1 takes the "
                                     "weight of slot 2, slot 2 takes the weight of slot 0"});
  EXPECT_EQ(mapped({1, 0, 3, 2}), Words{"slots: the weights of slots 0 and 1 change places, the "
                                        "weights of slots 2 and 3 change places"});
}

/// Of equal weights nothing is taken from another slot.
TEST(SlotWeights, ThatAreEqualAreTheirOwn) {
  SlotsWeighed s(6, 3);
  for (Index p = 0; p < 2; ++p) {
    Tensor w = s.weights(p);
    for (Index t = 0; t < 6; ++t) w.as<float>()[3 * t] = w.as<float>()[3 * t + 1];
    s.call.replace(s.rank(p) + "weights", std::move(w));
  }
  s.owed = run_call(*s.backend, s.call);
  s.weigh([&](Index p, Index t, Index slot) { return s.given(p, t, slot == 2 ? 1 : slot); });
  EXPECT_EQ(s.said(), Words{"slots: slot 2 takes the weight of slot 0"});
}

TEST(SlotWeights, ThatAreDividedOnceMore) {
  SlotsWeighed s(6, 3);
  s.weigh([&](Index p, Index t, Index slot) {
    const float sum = s.given(p, t, 0) + s.given(p, t, 1) + s.given(p, t, 2);
    return s.given(p, t, slot) / sum;
  });
  EXPECT_EQ(s.said(), Words{"divided: weights are divided by their sum once more"});
}

/// What is said where token t of twelve takes the weights of token t + by, or `beyond` the ends
/// such a factor of its own.
Words of_tokens(Index by, float beyond = 1) {
  SlotsWeighed s(12, 3);
  s.weigh([&](Index p, Index t, Index slot) {
    const bool there = t + by >= 0 && t + by < 12;
    return there ? s.given(p, t + by, slot) : beyond * s.given(p, t, slot);
  });
  return s.said();
}

TEST(SlotWeights, OfOtherTokens) {
  EXPECT_EQ(of_tokens(-1), Words{"other_token: weights are those of the token 1 before"});
  EXPECT_EQ(of_tokens(-8), (Words{"other_token: weights are those of the token 8 before, in tokens "
                                  "8 to 11 of rank0 and tokens 8 to 11 of rank1"}));
  EXPECT_EQ(of_tokens(-9), Words{});
  EXPECT_EQ(of_tokens(1), Words{"other_token: weights are those of the token 1 after"});
  EXPECT_EQ(of_tokens(8), (Words{"other_token: weights are those of the token 8 after, in tokens 0 "
                                 "to 3 of rank0 and tokens 0 to 3 of rank1"}));
  EXPECT_EQ(of_tokens(9), Words{});
}

/// Before the first token and after the last lies anything; but most are not beyond.
TEST(SlotWeights, BeyondTheTokensAreUnknown) {
  for (const Index by : {1, 6}) {
    const std::string words = "other_token: weights are those of the token " + std::to_string(by);
    EXPECT_EQ(of_tokens(-by, 0.7f), Words{words + " before"});
    EXPECT_EQ(of_tokens(by, 0.7f), Words{words + " after"});
  }
  EXPECT_EQ(of_tokens(-7, 0.7f), Words{});
  EXPECT_EQ(of_tokens(7, 0.7f), Words{});
}

TEST(SlotWeights, OfTheOtherRank) {
  for (const Index p : {0, 1}) {
    SlotsWeighed s(6, 3);
    s.weigh([&](Index rank, Index t, Index slot) {
      return s.given(rank == p ? 1 - p : rank, t, slot);
    });
    const std::string of =
        p == 0 ? "rank1, in tokens 0 to 5 of rank0" : "rank0, in tokens 0 to 5 of rank1";
    EXPECT_EQ(s.said(), Words{"other_rank: weights are those of " + of});
  }
}

}  // namespace
}  // namespace mxo
