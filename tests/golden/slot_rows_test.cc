// Tokens to which one slot brought the row of another.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "golden/explain/explain.h"
#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

constexpr Index kTokens = 24;
constexpr Index kSlots = 3;
constexpr Index kColumns = 32;

struct At {
  Index rank;
  Index token;
  Index slot;
};

/// Two ranks of kTokens, some slots of which bring the rows of others.
struct Brought : SlotsWeighed {
  explicit Brought(bool gradient = false)
      : SlotsWeighed(kTokens, kSlots, kColumns, gradient), end(gradient ? "dy" : "y") {
    for (Index s = 0; s < kSlots; ++s) rows.push_back(rows_of_slot(*backend, call, s));
  }
  const BF16* row(const At& at) const {
    return rows[static_cast<std::size_t>(at.slot)].at(rank(at.rank) + "out").as<BF16>() +
           at.token * kColumns;
  }
  /// Slot `to` brings the row of `from`; the altered call gives what comes.
  void bring(const At& to, const At& from) {
    for (Index p = 0; p < 2; ++p) {
      Tensor y = altered.op.empty() ? call.input(rank(p) + end) : altered.input(rank(p) + end);
      for (Index r = 0; r < y.extent(0); ++r) {
        const BF16* given = call.input(rank(p) + end).as<BF16>() + r * kColumns;
        if (std::memcmp(given, row(to), kColumns * sizeof(BF16)) == 0)
          std::memcpy(y.as<BF16>() + r * kColumns, row(from), kColumns * sizeof(BF16));
      }
      if (altered.op.empty()) altered = call;
      altered.replace(rank(p) + end, std::move(y));
    }
    came = run_call(*backend, altered);
  }
  std::string said() { return explain(*backend, call, owed, came).sentence(); }

  std::string end;
  std::vector<NamedTensors> rows;
  Call altered;
};

TEST(SlotRows, OfOneTokenAreNamed) {
  Brought b;
  b.bring({0, 5, 1}, {0, 9, 2});
  EXPECT_EQ(b.said(), "explained: slot 1 of token 5 of rank0 takes the row of slot 2 of token 9");
}

TEST(SlotRows, MayBeOfAnotherRank) {
  Brought b;
  b.bring({0, 5, 1}, {1, 9, 2});
  b.bring({1, 7, 0}, {1, 2, 1});
  EXPECT_EQ(b.said(),
            "explained: slot 1 of token 5 of rank0 takes the row of slot 2 of token 9 of rank1, "
            "slot 0 of token 7 of rank1 takes the row of slot 1 of token 2");
}

TEST(SlotRows, AtOneDistanceAreNamedByIt) {
  Brought b;
  for (Index t = 8; t < 13; ++t) b.bring({0, t, 1}, {0, t - 1, 1});
  EXPECT_EQ(b.said(),
            "explained: a slot takes the row of the token 1 before, in tokens 8 to 12 of rank0");
}

TEST(SlotRows, OfManyTokensAreNamedTogether) {
  Brought b;
  for (Index t = 0; t < 6; ++t) b.bring({t % 2, t * 3, t % 3}, {0, 23 - t, 1});
  EXPECT_EQ(b.said(),
            "explained: a slot takes the row of another token, in tokens 0, 6 and 12 of rank0 and "
            "tokens 3, 9 and 15 of rank1");
}

TEST(SlotRows, OfGradientsAreNamed) {
  Brought b(true);
  b.bring({1, 5, 1}, {0, 9, 2});
  EXPECT_EQ(b.said(),
            "explained: slot 1 of token 5 of rank1 takes the row of slot 2 of token 9 of rank0");
}

TEST(SlotRows, OfNoTokenAreNotNamed) {
  Brought b;
  b.bring({0, 5, 1}, {0, 9, 2});
  Tensor& out = b.came.at("rank1.out");
  Scattered next(5);
  for (Index c = 0; c < kColumns; ++c) out.as<BF16>()[3 * kColumns + c] = encode<kBF16>(next());
  EXPECT_EQ(b.said().find("takes the row"), std::string::npos) << b.said();
}

}  // namespace
}  // namespace mxo
