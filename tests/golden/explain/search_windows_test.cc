// Causes of a product, looked at in windows: few elements, some, more of them.
#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/golden/search_windows.h"

namespace mxo {
namespace {

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

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
