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

}  // namespace
}  // namespace mxo
