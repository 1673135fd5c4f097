// What slots weighed where rows came back, measured from their sums: what is said of it, and what
// cannot be measured or has no name.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Weight = std::function<float(const SlotsWeighed&, Index rank, Index token, Index slot)>;

Words weighed(const Weight& weight, Index tokens = 6, Index slots = 3, Index columns = 24) {
  SlotsWeighed s(tokens, slots, columns);
  s.weigh([&](Index p, Index t, Index slot) { return weight(s, p, t, slot); });
  return s.said();
}

/// So many times its weight.
Weight times(const std::function<float(Index, Index, Index)>& by) {
  return [by](const SlotsWeighed& s, Index p, Index t, Index slot) {
    return by(p, t, slot) * s.given(p, t, slot);
  };
}
Weight from_slots(std::vector<Index> from) {
  return [from](const SlotsWeighed& s, Index p, Index t, Index slot) {
    return s.given(p, t, from[static_cast<std::size_t>(slot)]);
  };
}
/// Those of the token `by` further; beyond the ends `beyond` times their own.
Weight from_token(Index by, float beyond = 1) {
  return [=](const SlotsWeighed& s, Index p, Index t, Index slot) {
    return t + by >= 0 && t + by < 12 ? s.given(p, t + by, slot) : beyond * s.given(p, t, slot);
  };
}
/// Weights in the order of others: place n of the order takes that of slot n, or the other way.
Weight in_order(const std::function<float(const SlotsWeighed&, Index, Index, Index)>& key) {
  return [=](const SlotsWeighed& s, Index p, Index t, Index slot) {
    std::vector<Index> order{0, 1, 2};
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return key(s, p, t, a) < key(s, p, t, b); });
    return s.given(p, t, order[static_cast<std::size_t>(slot)]);
  };
}

const Words kLeftOut{"slots_left_out: slot 1 is left out"};
const Weight kSlot1 = times([](Index, Index, Index s) { return s == 1 ? 0 : 1; });

TEST(SlotWeights, AreNamed) {
  const std::string out = "slots_left_out: ";
  const std::string map = "slots: ";
  const std::string permuted = "weights of a token are permuted among its slots: ";
  const std::string token = "other_token: weights are those of the token ";
  struct Row {
    Weight weight;
    Words said;
    Index tokens = 6;
    Index slots = 3;
  };
  for (const Row& row : std::vector<Row>{
           {kSlot1, kLeftOut},
           {times([](Index p, Index t, Index s) { return p == 1 && t == 3 && s == 0 ? 0 : 1; }),
            {out + "slot 0 is left out, in token 3 of rank1"}},
           {times([](Index p, Index t, Index s) {
              return (p == 1 ? t == 3 || t == 4 : t == 5) && s == t % 2 ? 0 : 1;
            }),
            {out + "slot 0 of 1 token, slot 1 of 2 tokens are left out, in token 5 of rank0 and "
                   "tokens 3 to 4 of rank1"}},
           // Nine of twelve tokens are nearly all.
           {times([](Index p, Index t, Index s) { return p * 6 + t < 9 && s == 1 ? 0 : 1; }),
            kLeftOut},
           {times([](Index p, Index t, Index s) { return p * 6 + t < 8 && s == 1 ? 0 : 1; }),
            {out + "slot 1 is left out, in tokens 0 to 5 of rank0 and tokens 0 to 1 of rank1"}},
           // Slot s of token t goes to expert t + s + p.
           {times([](Index p, Index t, Index s) { return (t + s + p) % 4 == 1 ? 0 : 1; }),
            {out + "rows of expert 1 are left out"}},
           {times([](Index p, Index t, Index s) { return (t + s + p) % 4 < 2 ? 0 : 1; }),
            {out + "rows of the experts of rank0 are left out"}},
           {times([](Index, Index, Index s) { return s == 1 ? 1 : 2; }),
            {"slots_twice: slots 0 and 2 are added twice"}},
           {times([](Index, Index, Index) { return 2; }),
            {"slots_twice: slot 0 is added twice"},
            6,
            1},
           {times([](Index, Index, Index s) { return s == 1 ? 0.4f : 1; }),
            {"slots_fraction: slot 1 is weighed by 0.4 times the weight"}},
           {times([](Index, Index, Index s) { return s == 1 ? 3 : 1; }),
            {"slots_fraction: slot 1 is weighed by 3 times the weight"}},
           {from_slots({1, 0, 2}), {map + "the weights of slots 0 and 1 change places"}},
           {from_slots({0, 0, 0}),
            {map + "slot 1 takes the weight of slot 0, slot 2 takes the weight of slot 0"}},
           {from_slots({1, 0, 3, 2}),
            {map + "the weights of slots 0 and 1 change places, the weights of slots 2 and 3 "
                   "change places"},
            6,
            4},
           {in_order([](const SlotsWeighed&, Index p, Index t, Index s) {
              return static_cast<float>((t + s + p) % 4);
            }),
            {"by_expert: " + permuted +
             "in the order of experts, in tokens 2 to 3 of rank0 and tokens 1 to 2 and 5 of "
             "rank1"}},
           {in_order([](const SlotsWeighed&s, Index p, Index t, Index slot) {
              return -s.given(p, t, slot);
            }),
            {"permuted: " + permuted + "the largest first"}},
           {[](const SlotsWeighed&s, Index p, Index t, Index slot) {
              return s.given(p, t, (slot + t % 3) % 3);
            },
            {"permuted: weights of a token are permuted among its slots, in each token another "
             "way, in "
             "tokens 1 to 2 and 4 to 5 of rank0 and tokens 1 to 2 and 4 to 5 of rank1"}},
           {[](const SlotsWeighed&s, Index p, Index t, Index slot) {
              return s.given(p, t, slot) / (s.given(p, t, 0) + s.given(p, t, 1) + s.given(p, t, 2));
            },
            {"divided: weights are divided by their sum once more"}},
           {from_token(-1), {token + "1 before"}, 12},
           {from_token(8),
            {token + "8 after, in tokens 0 to 3 of rank0 and tokens 0 to 3 of rank1"},
            12},
           {from_token(9), {}, 12},
           {from_token(6, 0.7f), {token + "6 after"}, 12},  // beyond the ends lies anything
           {from_token(7, 0.7f), {}, 12},                   // but most have to be there
           {[](const SlotsWeighed&s, Index p, Index t, Index slot) {
              return s.given(p == 0 ? 1 : p, t, slot);
            },
            {"other_rank: weights are those of rank1, in tokens 0 to 5 of rank0"}},
           {times([](Index, Index, Index) { return 1; }), {}},
           {times([](Index, Index, Index s) { return s == 1 ? 0.4137f : 1; }), {}},
           // Every token but one would do.
           {times([](Index p, Index t, Index s) {
              return s != 1 ? 1 : p == 1 && t == 5 ? 0.4f : 0;
            }),
            {}}}) {
    EXPECT_EQ(weighed(row.weight, row.tokens, row.slots), row.said);
  }
}

TEST(SlotWeights, ThatCannotBeMeasuredAreSilent) {
  EXPECT_EQ(weighed(kSlot1, 2, 16, 48), kLeftOut);
  EXPECT_EQ(weighed(kSlot1, 2, 17, 48), Words{}) << "slots";
  EXPECT_EQ(weighed(kSlot1, 6, 3, 14), kLeftOut);
  EXPECT_EQ(weighed(kSlot1, 6, 3, 13), Words{}) << "columns";
  EXPECT_EQ(weighed(times([](Index, Index, Index) { return 0; })), Words{}) << "zeros";
  const auto spoiled = [](const std::function<void(SlotsWeighed&, BF16*)>& spoil) {
    SlotsWeighed s(6, 3);
    s.weigh([&](Index p, Index t, Index slot) { return kSlot1(s, p, t, slot); });
    spoil(s, s.got.at("rank1.out").as<BF16>());
    return s.said();
  };
  EXPECT_EQ(spoiled([](SlotsWeighed&, BF16* out) {
              out[30] = encode<kBF16>(std::numeric_limits<float>::infinity());
            }),
            Words{});
  EXPECT_EQ(spoiled([](SlotsWeighed&, BF16* out) { out[30] = encode<kBF16>(decode(out[30]) + 1); }),
            Words{})
      << "an element that no weights give";
}

}  // namespace
}  // namespace mxo
