// Every element of a product that fails, computed with a cause piece by piece.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/explain/confirm/settling.h"
#include "tests/golden/numbered_product.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

/// What a cause that gives `model` explains of a product of which `came` came, and the windows.
struct Pieces {
  Pieces(Index rows, Index n, Value came, const Value& model, Stage stage = Stage::rule)
      : b(of_zeros(rows, n, came)), h(that_gives("a", model)) {
    h.stage = stage;
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return true;
    };
    claims = settle(*b.bench, {{&h}, {}});
  }
  std::string sentence() const { return claims.empty() ? "" : claims[0].sentence; }
  SmallBench b;
  Hypothesis h;
  std::vector<Window> windows;
  std::vector<Claim> claims;
};

/// Ones in rows from `row` on and columns from `column` on.
Value from(Index row, Index column) {
  return [=](Index r, Index c) { return r >= row && c >= column ? 1.0f : 0.0f; };
}

TEST(SettlingPieces, HoldEveryElementOfAProduct) {
  Pieces all(3, 4, from(0, 0), from(0, 0));
  EXPECT_EQ(all.sentence(), "it is a");
  ASSERT_EQ(all.claims.size(), 1u);
  EXPECT_EQ(all.claims[0].elements, 12);
  EXPECT_EQ(all.claims[0].judged(), 12);
  EXPECT_EQ(all.claims[0].where.tensor, "y");
  EXPECT_EQ(all.b.output().left, 0);
  ASSERT_EQ(all.windows.size(), 1u);
  Pieces part(3, 4, from(1, 2), from(1, 2));
  EXPECT_EQ(part.windows[0].rows, (Indices{1, 2}));
  EXPECT_EQ(part.windows[0].columns, (Indices{2, 3}));
  EXPECT_EQ(part.sentence(), "it is a, in columns 2 to 3 of rows 1 to 2 of y");
  Pieces columns(3, 4, from(0, 2), from(0, 2));
  EXPECT_EQ(columns.sentence(), "it is a") << "every row has it";
}

TEST(SettlingPieces, LeaveWhatDoesNotFit) {
  const Value twos = [](Index r, Index c) { return r == 1 && c == 1 ? 2.0f : 1.0f; };
  Pieces p(3, 4, twos, from(0, 0));
  EXPECT_EQ(p.sentence(), "it is a, in rows 0 and 2 of y") << "row 1 is no unit";
  EXPECT_EQ(p.b.output().left, 4);
  Pieces none(3, 4, from(0, 0), [](Index, Index) { return 3.0f; });
  EXPECT_TRUE(none.claims.empty());
  EXPECT_EQ(none.b.output().left, 12);
  EXPECT_EQ(none.windows.size(), 1u) << "each was computed: nothing is extended";
}

TEST(SettlingPieces, HoldNothingThatIsExplained) {
  SmallBench b = of_zeros(2, 4, from(0, 0));
  for (Index i = 0; i < 4; ++i) b.output().settle(2 * i);
  const Hypothesis h = that_gives("a", from(0, 0));
  const auto claims = settle(*b.bench, {{&h}, {}});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 4);
  EXPECT_EQ(claims[0].sentence, "it is a, in columns 1 and 3 of y");
}

TEST(SettlingPieces, OfALivePartAreNamed) {
  SmallBench b = of_zeros(2, 4, from(0, 0));
  b.output().live = {{1, 1}, {1, 1, 1, 1}};
  const Hypothesis h = that_gives("a", from(0, 0));
  EXPECT_EQ(settle(*b.bench, {{&h}, {}})[0].sentence, "it is a, in all of y");
}

TEST(SettlingPieces, OfSumsFitAllOrNone) {
  const Value came = [](Index r, Index c) { return r == 1 && c == 1 ? 2.0f : 1.0f; };
  for (const Stage stage : {Stage::sum, Stage::output}) {
    Pieces p(30, 4, came, from(0, 0), stage);
    EXPECT_TRUE(p.claims.empty()) << "one of 120 does not fit";
    EXPECT_EQ(p.b.output().left, 120);
    EXPECT_EQ(p.windows.size(), 1u) << "and there is no other look";
    Pieces all(30, 4, from(0, 0), from(0, 0), stage);
    EXPECT_EQ(all.sentence(), "it is a");
  }
}

TEST(SettlingPieces, OfSumsFitAllOrNoneTogether) {
  const Value diagonal = [](Index r, Index c) { return r == c ? 1.0f : 0.0f; };
  const Value came = [](Index r, Index c) { return r != c ? 0.0f : r == 70 ? 2.0f : 1.0f; };
  Pieces sum(72, 80, came, diagonal, Stage::sum);
  EXPECT_EQ(sum.windows.size(), 9u);
  EXPECT_TRUE(sum.claims.empty()) << "the last does not fit";
  EXPECT_FALSE(Pieces(72, 80, came, diagonal).claims.empty());
}

/// Columns from 32 on of row 1 are right: a cause that alters them is not that of the whole.
TEST(SettlingPieces, ThatAlterWhatIsRightArePlaces) {
  const Value came = [](Index r, Index c) { return r == 0 || c < 32 ? 1.0f : 0.0f; };
  EXPECT_EQ(Pieces(2, 64, came, came).sentence(), "it is a");
  EXPECT_EQ(Pieces(2, 64, came, from(0, 0)).sentence(), "it is a, in all of y");
}

/// Fewer than 64 elements are what many sums give: it may alter none that is right.
TEST(SettlingPieces, OfFewElementsAreLookedAtBeside) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::input}) {
    for (const Index height : {7, 8}) {
      const Value came = [=](Index r, Index c) { return r < height && c < 9 ? 1.0f : 0.0f; };
      const Value more = [](Index r, Index c) { return r < 8 && c < 10 ? 1.0f : 0.0f; };
      Pieces p(20, 16, came, more, stage);
      EXPECT_EQ(p.claims.empty(), stage != Stage::input && height == 7);
      Pieces same(20, 16, came, came, stage);
      EXPECT_FALSE(same.claims.empty());
      if (stage == Stage::input || height == 8) {
        EXPECT_EQ(same.windows.size(), 1u);
      } else {
        ASSERT_EQ(same.windows.size(), 2u);
        EXPECT_EQ(same.windows[1].rows, range_of(20));
        EXPECT_EQ(same.windows[1].columns, range_of(16));
      }
    }
  }
}

TEST(SettlingPieces, OfFewElementsAreLookedAtInAllGroups) {
  Call call = numbered_product(20, 16);
  const Tensor w = call.input("w");
  Tensor both(Dtype::u8, {2, 16, 2});
  for (const Index at : {0, 32})
    std::copy_n(w.as<std::uint8_t>(), 32, both.as<std::uint8_t>() + at);
  call.replace("w", both);
  call.replace("group_ends", ends_at({5, 20}));
  const Tensor owed(Dtype::f32, {20, 16});
  SmallBench b{call, owed, with_other(owed, {3}, {5}, 1)};
  Hypothesis h = that_gives("a", [](Index r, Index c) { return r == 3 && c == 5 ? 1.0f : 0.0f; });
  h.stage = Stage::sum;
  h.local = true;
  std::vector<Indices> rows;
  h.alter = [&](Call& part) {
    rows.push_back(numbers_of(part.input("x")));
    return true;
  };
  ASSERT_EQ(settle(*b.bench, {{&h}, {}}).size(), 1u);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1], range_of(20));
}

TEST(SettlingPieces, ThatCannotBeRunAreNoClaims) {
  SmallBench b = of_zeros(2, 4, from(0, 0));
  Hypothesis h = that_gives("a", from(0, 0));
  h.rewrite = [](const Call&, NamedTensors&) { return false; };
  EXPECT_TRUE(settle(*b.bench, {{&h}, {}}).empty());
  h.rewrite = {};
  h.alter = [](Call&) { return false; };
  EXPECT_TRUE(settle(*b.bench, {{&h}, {}}).empty());
  SmallBench right = of_zeros(2, 4, from(5, 5));
  h.alter = [](Call&) { return true; };
  EXPECT_TRUE(settle(*right.bench, {{&h}, {}}).empty()) << "nothing is left";
}

}  // namespace
}  // namespace mxo
