// Orders of neighbours: what they are called, and which of them fit.
#include "golden/explain/words/permutation.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

namespace mxo {
namespace {

std::string words(std::vector<Index> source) { return Permutation{std::move(source)}.words(); }

/// An order of `n` places by its rule.
Permutation by(Index n, const std::function<Index(Index)>& source) {
  Permutation p;
  for (Index i = 0; i < n; ++i) p.source.push_back(source(i));
  return p;
}

/// What permutations_of() makes of rows that came in the order `p`, of distinct values.
std::vector<Permutation> found(const Permutation& p) {
  return permutations_of([&](Index period, Index i, Index j) {
    // Place i of a run of `period` is seen to hold what place p.from(i) is expected to.
    return p.period() <= period && p.from(i) == j;
  });
}

TEST(Permutation, ReadsEveryRunAlike) {
  const Permutation p{{2, 0, 1, 3}};
  EXPECT_EQ(p.period(), 4);
  EXPECT_EQ(p.from(0), 2);
  EXPECT_EQ(p.from(5), 4);
  EXPECT_EQ(p.from(7), 7);
  EXPECT_EQ(p.from(10, 9), 9) << "runs from 9 on: place 1 of the first";
  EXPECT_FALSE(p.identity());
  EXPECT_TRUE((Permutation{{0, 1, 2}}).identity());
}

TEST(Permutation, KnownOrdersHaveTheirNames) {
  EXPECT_EQ(words({3, 2, 1, 0}), "in runs of 4 in the order 3, 2, 1, 0 (reversed)");
  EXPECT_EQ(words({1, 0}), "in runs of 2 in the order 1, 0 (reversed)");
  EXPECT_EQ(words({0, 0, 0, 0}),
            "in runs of 4 in the order 0, 0, 0, 0 (the first of each run for all of it)");
  EXPECT_EQ(words({3, 3, 3, 3}),
            "in runs of 4 in the order 3, 3, 3, 3 (the last of each run for all of it)");
  EXPECT_EQ(words({2, 3, 0, 1}), "in runs of 4 in the order 2, 3, 0, 1 (halves exchanged)");
  EXPECT_EQ(words({1, 2, 3, 0}), "in runs of 4 in the order 1, 2, 3, 0 (rolled by 1)");
  EXPECT_EQ(words({3, 0, 1, 2}), "in runs of 4 in the order 3, 0, 1, 2 (rolled back by 1)");
  EXPECT_EQ(words({1, 0, 3, 2}),
            "in runs of 4 in the order 1, 0, 3, 2 (exchanged with those 1 away)");
  EXPECT_EQ(words({2, 3, 0, 1, 6, 7, 4, 5}),
            "in runs of 8 in the order 2, 3, 0, 1, 6, 7, 4, 5 (exchanged with those 2 away)");
  EXPECT_EQ(words({0, 2, 1, 3}), "in runs of 4 in the order 0, 2, 1, 3 (2 x 2 transposed)");
  EXPECT_EQ(words({0, 4, 1, 5, 2, 6, 3, 7}),
            "in runs of 8 in the order 0, 4, 1, 5, 2, 6, 3, 7 (2 x 4 transposed)");
  EXPECT_EQ(words({0, 2, 4, 6, 1, 3, 5, 7}),
            "in runs of 8 in the order 0, 2, 4, 6, 1, 3, 5, 7 (4 x 2 transposed)");
  EXPECT_EQ(words({5, 6, 7, 0, 1, 2, 3, 4}),
            "in runs of 8 in the order 5, 6, 7, 0, 1, 2, 3, 4 (rolled back by 3)");
  EXPECT_TRUE((Permutation{{0, 2, 1, 3}}).has_name());
}

TEST(Permutation, TheLeastPeriodThatFitsIsFound) {
  for (const Index n : kPermutationPeriods) {
    const Permutation reversed = by(n, [n](Index i) { return n - 1 - i; });
    const std::vector<Permutation> list = found(reversed);
    ASSERT_FALSE(list.empty()) << n;
    EXPECT_EQ(list.front().source, reversed.source);
  }
}

TEST(Permutation, OrdersWithoutANameAreFound) {
  const std::vector<Permutation> list = found(Permutation{{1, 0, 2, 3}});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list.front().source, (std::vector<Index>{1, 0, 2, 3}));
}

TEST(Permutation, AlikePlacesStayOrAreTakenOnce) {
  // In runs of eight 3 and 4 are exchanged; 0 and 1 are alike, and 7 fits anywhere.
  const auto list = permutations_of([](Index period, Index i, Index j) {
    if (period != 8) return false;
    if (i < 2) return j < 2;
    if (i == 7) return true;
    return j == (i == 3 ? 4 : i == 4 ? 3 : i);
  });
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list.front().source, (std::vector<Index>{0, 1, 2, 4, 3, 5, 6, 7}));
  // A known order that fits as well is preferred: the last two of four are alike.
  const auto known = permutations_of(
      [](Index period, Index i, Index j) { return period == 4 && (i < 2 ? j == 1 - i : j >= 2); });
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known.front().source, (std::vector<Index>{1, 0, 3, 2}));
}

TEST(Permutation, NothingIsFoundWhereAPlaceFitsNowhere) {
  EXPECT_TRUE(permutations_of([](Index, Index i, Index) { return i > 0; }).empty());
  EXPECT_TRUE(permutations_of([](Index, Index i, Index j) { return i == j; }).empty())
      << "every place is its own";
}

}  // namespace
}  // namespace mxo
