// Where elements lie and in which order, in words: runs, periods, groups, orders of neighbours.
#include "golden/explain/words/places.h"

#include <gtest/gtest.h>

#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

std::vector<Index> from_to(Index first, Index last, Index step = 1) {
  std::vector<Index> list;
  for (Index i = first; i <= last; i += step) list.push_back(i);
  return list;
}

/// An output of a shape; its values do not matter here.
Output output(Index rows, Index columns, std::vector<Index> ends = {}) {
  Output y;
  y.name = "y";
  y.rows = rows;
  y.columns = columns;
  y.compared_rows = ends.empty() ? rows : ends.back();
  y.ends = std::move(ends);
  return y;
}

TEST(Places, FourRunsAreWrittenOut) {
  EXPECT_EQ(ranges({7}), "7");
  EXPECT_EQ(ranges({1, 2, 3, 7}), "1-3, 7");
  EXPECT_EQ(ranges({1, 3, 5, 9}), "1, 3, 5, 9");
  EXPECT_EQ(ranges({1, 2, 9, 20, 33, 50}), "6 of 1-50") << "five runs, no period";
  EXPECT_EQ(ranges_in_words("row", {7}), "row 7");
  EXPECT_EQ(ranges_in_words("row", {7, 8}), "rows 7 to 8");
  EXPECT_EQ(ranges_in_words("row", {1, 3, 5, 9}), "rows 1, 3, 5 and 9");
  EXPECT_EQ(ranges_in_words("row", {1, 2, 7, 9}), "rows 1 to 2, 7 and 9");
  EXPECT_EQ(ranges_in_words("row", {1, 2, 9, 20, 33, 50}), "6 rows between 1 and 50");
}

TEST(Places, ThingsThatComeBackAreWrittenAsAPeriod) {
  EXPECT_EQ(ranges(from_to(1, 19, 2)), "1 mod 2");
  EXPECT_EQ(ranges_in_words("column", from_to(1, 19, 2)), "every 2nd column from 1");
  EXPECT_EQ(ranges_in_words("row", from_to(5, 85, 16)), "every 16th row from 5");
  EXPECT_EQ(ranges(from_to(37, 117, 16)), "5 mod 16") << "the first periods have none";
  EXPECT_EQ(ranges_in_words("row", from_to(5, 165, 32)), "every 32nd row from 5");
  std::vector<Index> halves;
  for (Index i = 0; i < 100; ++i) {
    if (i % 16 >= 8 && i % 16 <= 10) halves.push_back(i);
  }
  EXPECT_EQ(ranges(halves), "8-10 mod 16");
  EXPECT_EQ(ranges_in_words("row", halves), "rows 8 to 10 of every 16");
}

TEST(Places, APeriodIsSeenThreeTimesAndMostlyWhole) {
  EXPECT_EQ(ranges({0, 2, 5, 8, 10, 13, 16, 18, 21}), "0, 2, 5 mod 8") << "three times";
  EXPECT_EQ(ranges({0, 3, 8, 16, 19, 24}), "6 of 0-24") << "of 3 mod 8 half lacks";
  EXPECT_EQ(ranges({0, 2, 6, 8, 12, 14}), "0 mod 2") << "three quarters";
  EXPECT_EQ(ranges({0, 3, 4, 11, 16, 19}), "6 of 0-19") << "three fifths of two remainders";
  std::vector<Index> twenty = from_to(2, 78, 4);
  for (const int at : {12, 8, 4}) twenty.erase(twenty.begin() + at);
  EXPECT_EQ(ranges(twenty), "17 of 2-78") << "three lack, though few of twenty";
}

TEST(Places, GroupsAreNamedWholeOrByTheirRows) {
  const Output y = output(12, 8, {3, 3, 7, 10});
  const Place whole = place_of(y, from_to(3, 6), from_to(0, 7));
  EXPECT_EQ(whole.words, "all of group 2 of y");
  EXPECT_EQ(whole.where.groups, "2");
  EXPECT_EQ(whole.where.rows, "3-6");
  EXPECT_EQ(place_of(y, from_to(3, 6), {1}).words, "column 1 of group 2 of y");
  EXPECT_EQ(place_of(y, from_to(0, 6), from_to(0, 7)).words, "all of groups 0 and 2 of y");
  EXPECT_EQ(place_of(y, {4, 5}, from_to(0, 7)).words, "rows 4 to 5 of group 2 of y");
  EXPECT_EQ(place_of(y, {0}, from_to(0, 7)).words, "row 0 of group 0 of y");
  EXPECT_EQ(place_of(output(4, 8, {2, 4}), {3}, from_to(0, 7)).words, "row 3 of group 1 of y");
  EXPECT_EQ(place_of(y, {2, 3, 4}, from_to(0, 7)).words, "rows 2 to 4 of y");
  EXPECT_EQ(place_of(y, {2, 3, 4}, from_to(0, 7)).where.groups, "0, 2");
  EXPECT_EQ(place_of(y, from_to(0, 9), from_to(0, 7)).words, "all of y") << "all that are owed";
  EXPECT_EQ(place_of(output(4, 8, {4}), {1}, from_to(0, 7)).words, "row 1 of y") << "one group";
}

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
  EXPECT_TRUE(
      words(twice).ends_with("order 0 to 15, then 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "
                             "14, 15 (16 to 31 are 0 to 15)"))
      << words(twice);
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
