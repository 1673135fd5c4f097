// Orders of neighbours: what they are called, and which of them fit.
#include "golden/explain/words/permutation.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

std::string words(std::vector<Index> source) { return Permutation{std::move(source)}.words(); }

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
  std::vector<Index> twice(32);
  for (Index i = 0; i < 32; ++i) twice[static_cast<std::size_t>(i)] = i % 16;
  EXPECT_TRUE(words(twice).ends_with("14, 15, ... (16 to 31 are 0 to 15)")) << words(twice);
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

}  // namespace
}  // namespace mxo
