// Causes of a product, looked at in windows: few elements, some, more of them.
#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/golden/search_windows.h"

namespace mxo {
namespace {

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

TEST(SearchWindows, GrowWhereACauseFits) {
  Windowed w(200, 300, one);
  w.add("a", one);
  EXPECT_EQ(w.sentence(), "it is a");
  ASSERT_EQ(w.ran.size(), 3u);
  // Six and two rows of which the ends are the same, 48 and 16 columns likewise.
  EXPECT_EQ(w.ran[0].rows, 6u);
  EXPECT_GE(w.ran[0].columns, 48u);
  EXPECT_LT(w.ran[0].columns, 64u);
  EXPECT_GE(w.ran[1].rows, 48u);
  EXPECT_LT(w.ran[1].rows, 64u);
  EXPECT_EQ(w.ran[2], (WindowSize{200, 300})) << "every element";
}

TEST(SearchWindows, SumsAreLookedAtInAFew) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::rule}) {
    Windowed w(200, 300, one);
    w.add("a", none, stage);
    EXPECT_TRUE(w.claims().empty());
    ASSERT_EQ(w.ran.size(), 1u);
    EXPECT_EQ(w.ran[0].rows, stage == Stage::rule ? 6u : 2u);
    Windowed right(200, 300, one);
    right.add("a", one, stage);
    EXPECT_EQ(right.sentence(), "it is a");
    EXPECT_EQ(right.ran.size(), stage == Stage::rule ? 3u : 4u);
  }
}

TEST(SearchWindows, CausesOfAllAreLookedAtInAFew) {
  Windowed w(200, 300, one);
  w.add("a", none);
  EXPECT_TRUE(w.claims(Extent::all).empty());
  ASSERT_EQ(w.ran.size(), 1u);
  EXPECT_EQ(w.ran[0].rows, 2u);
  EXPECT_EQ(w.nearest.phrase, "");
  w.list.clear();
  w.add("b", one);
  EXPECT_EQ(w.sentence(Extent::all), "it is b");
  // What fits in a few elements only is none of all.
  Windowed few(200, 300, one);
  few.add("c", [](Index r, Index) { return r == 0 || r == 199 ? 1.0f : 0.5f; });
  EXPECT_TRUE(few.claims(Extent::all).empty());
  EXPECT_EQ(few.ran.size(), 2u);
  EXPECT_EQ(few.nearest.phrase, "");
}

/// Row 0 is looked at with the few, row 39 with more of them.
TEST(SearchWindows, OneElementThatFailsIsEnough) {
  const auto all_but = [](Index row) {
    return [=](Index r, Index c) { return r == row && c == 0 ? 0.5f : 1.0f; };
  };
  Windowed sum(200, 300, one);
  sum.add("a", all_but(0), Stage::sum);
  EXPECT_TRUE(sum.claims().empty());
  EXPECT_EQ(sum.ran.size(), 1u);
  Windowed all(200, 300, one);
  all.add("a", all_but(39));
  EXPECT_TRUE(all.claims(Extent::all).empty());
  EXPECT_EQ(all.ran.size(), 2u);
  EXPECT_EQ(all.nearest.phrase, "");
}

TEST(SearchWindows, WhatFitsInAWindowAloneIsNoCause) {
  Windowed w(200, 300, one);
  w.add("a", one);
  w.most_rows = 20;  // no wider window is a call
  EXPECT_TRUE(w.claims().empty());
  Windowed other(200, 300, one);
  const auto in_window = [](Index r, Index) { return r % 199 == 0 || r == 39 ? 1.0f : 0.0f; };
  other.add("a", in_window);
  other.add("b", [](Index r, Index) { return r < 150 ? 1.0f : 0.0f; });
  const auto claims = other.claims();
  ASSERT_FALSE(claims.empty());
  EXPECT_EQ(claims[0].id, "b") << "more of them on the wider window";
}

/// Rows 0, 39, 79, 119, 159 and 199 are looked at first.
TEST(SearchWindows, TheBestOnTheWiderWindowIsSettled) {
  Windowed w(200, 300, one);
  w.add("a",
        [](Index r, Index) { return r < 100 || r == 119 || r == 159 || r == 199 ? 1.0f : 0.0f; });
  w.add("b", [](Index r, Index) { return r < 165 ? 1.0f : 0.0f; });
  const auto claims = w.claims();
  ASSERT_FALSE(claims.empty());
  EXPECT_EQ(claims[0].id, "b");
}

/// Two sums give what came and alter row 107 as well, which no window holds.
TEST(SearchWindows, WhatIsNotSettledSharesNoSentence) {
  const auto rows = [](Index last) {
    return [=](Index r, Index c) { return r >= 100 && r < last && c < 9 ? 1.0f : 0.0f; };
  };
  Windowed w(300, 16, rows(107));
  w.add("a", rows(108), Stage::sum);
  w.add("b", rows(108), Stage::sum);
  EXPECT_TRUE(w.claims().empty());
  EXPECT_EQ(w.b.output().left, 63);
}

/// What alters whole operands is run where nothing gives every bit, though something gives some.
TEST(SearchWindows, WholeOperandsComeLast) {
  Windowed w(200, 300, one);
  w.add("x=late", one, Stage::input);
  w.add("a", [](Index r, Index) { return r < 100 ? 1.0f : 0.0f; });
  const auto claims = w.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence, "it is x=late");
  Windowed all(200, 300, one);
  all.add("x=late", one, Stage::input);
  all.add("a", one);
  EXPECT_EQ(all.sentence(), "it is a");
}

TEST(SearchWindows, PairsAreRunInTheirOwn) {
  Windowed w(200, 300, one);
  w.add("a", [](Index, Index) { return 0.5f; });
  w.add("b", none, Stage::sum).run = {};
  w.list[1].alter = [](Call&) { return false; };
  w.ran.clear();
  EXPECT_TRUE(w.claims().empty());
  w.list[1].alter = [](Call&) { return true; };
  w.list[1].run = w.list[0].run;
  w.ran.clear();
  EXPECT_TRUE(w.claims().empty());
  ASSERT_EQ(w.ran.size(), 4u) << "each alone, and both in either order";
  EXPECT_EQ(w.ran[0].rows, 6u);
  EXPECT_EQ(w.ran[1].rows, 2u);
  EXPECT_EQ(w.ran[2].rows, 4u) << "two rows of each kind";
  EXPECT_GE(w.ran[2].columns, 24u);
  EXPECT_LT(w.ran[2].columns, 32u);
}

/// A cause that is no call where it is looked at again, but with another is one.
TEST(SearchWindows, BothOfAPairMatter) {
  for (const bool alone : {true, false}) {
    Windowed w(200, 300, one);
    w.add("a", one);
    const auto run = w.list[0].run;
    w.list[0].run = [=](Backend& backend, const Call& call) {
      const bool fits = alone ? call.input("x").extent(0) < 20 : call.input("x").extent(0) == 6;
      if (!fits && !call.set.flag("b", false)) throw Error(Fault::argument, "too many");
      return run(backend, call);
    };
    w.add("b", none).alter = [](Call& call) {
      call.set.set("b", "true");
      return true;
    };
    EXPECT_EQ(w.sentence(), alone ? "0 claims" : "it is a and it is b");
  }
}

}  // namespace
}  // namespace mxo
