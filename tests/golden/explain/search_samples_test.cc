// Causes that are known on some lines of a product: samples stand for the rest.
#include <gtest/gtest.h>

#include "tests/golden/search_windows.h"

namespace mxo {
namespace {

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

/// A cause that is known of some rows or columns alone is judged there.
TEST(SearchSamples, StandForTheRest) {
  Windowed w(50, 100, one);
  Hypothesis& h = w.add("a", one);
  h.only.rows = {3, 9};
  const auto claims = w.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "a");
  EXPECT_EQ(claims[0].sentence,
            "it is a, in all of y (judged on 192 of the 5000 elements that differ)");
  EXPECT_EQ(claims[0].elements, 5000);
  EXPECT_EQ(claims[0].confirmed, 192);
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(w.b.output().left, 0);
  ASSERT_EQ(w.ran.size(), 1u);
  EXPECT_EQ(w.ran[0], (WindowSize{2, 96}));
  Windowed columns(50, 100, one);
  columns.add("a", one).only.columns = {3, 9, 70};
  EXPECT_EQ(columns.sentence(),
            "it is a, in all of y (judged on 72 of the 5000 elements that differ)");
  EXPECT_EQ(columns.ran[0], (WindowSize{24, 3}));
  Windowed both(50, 100, one);
  both.add("a", one).only = {{1, 2}, range_of(4)};
  EXPECT_EQ(both.sentence(), "it is a, in all of y (judged on 8 of the 5000 elements that differ)");
}

TEST(SearchSamples, AreTriedInTurn) {
  Windowed w(50, 100, one);
  w.add("full", none);
  w.add("a", none).only.rows = {3, 9};
  w.add("b", one).only.rows = {3, 9};
  w.b.output().settle(0);
  const auto claims = w.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "b");
  EXPECT_EQ(claims[0].elements, 4999);
  w.b.outputs.front().name = "z";
  for (Mark& m : w.b.output().marks) m = Mark::differs;
  w.b.output().left = 5000;
  EXPECT_TRUE(w.claims().empty()) << "no windows, no samples";
}

}  // namespace
}  // namespace mxo
