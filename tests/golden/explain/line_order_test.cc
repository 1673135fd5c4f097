// Lines of a factor in an order that comes again every few, of all or of each group.
#include <gtest/gtest.h>

#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

const std::vector<std::string> kRows{"x.codes", "x.scales"};
const std::vector<std::string> kWeights{"w.codes", "w.scales"};

Index pairs(Index i) { return i ^ 1; }
Index fours(Index i) { return i ^ 3; }

const std::string kPairs =
    "x=lines: the rows of x are taken in runs of 2 in the order 1, 0 (reversed)";
const std::string kFours =
    "x=lines: the rows of x are taken in runs of 4 in the order 3, 2, 1, 0 (reversed)";

TEST(LineOrder, ComesAgainEveryFew) {
  EXPECT_EQ(words_of_rows({}, pairs), kPairs);
  EXPECT_EQ(words_of_rows({}, fours), kFours);
  const Call call = forward_call({});
  EXPECT_EQ(Lines(call, with_lines(call, {"x.scales"}, 0, pairs)).first(),
            "x.scales=lines: the scales of the rows of x are taken in runs of 2 in the order 1, 0 "
            "(reversed)");
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes"}, 1, fours)).first(),
            "w.codes=lines: the codes of the lines of w, without their scales, are taken in runs "
            "of 4 in the order 3, 2, 1, 0 (reversed)");
  const Call gradient = gradient_call({});
  EXPECT_EQ(Lines(gradient, with_lines(gradient, {"dy.codes", "dy.scales"}, 1, pairs)).first(),
            "dy=lines: the columns of dy are taken in runs of 2 in the order 1, 0 (reversed)");
}

TEST(LineOrder, MayComeOnce) {
  EXPECT_EQ(
      words_of_rows({}, [](Index i) { return 15 - i; }),
      "x=lines: the rows of x are taken in runs of 16 in the order 15, 14, 13, 12, 11, 10, 9, "
      "8, 7, 6, 5, 4, 3, 2, 1, 0 (reversed)");
}

TEST(LineOrder, OfAllIsNotSaidOfGroupsAgain) {
  const Call call = forward_call({});
  EXPECT_EQ(Lines(call, with_lines(call, kRows, 0, fours)).words(), std::vector{kFours});
}

TEST(LineOrder, IsTakenFromTheOperands) {
  const Call call = forward_call({10, 16, 64, {10}});
  for (const auto& [names, axis] : {std::pair{kRows, 0}, std::pair{kWeights, 1}}) {
    const Call wanted = with_lines(call, names, axis, fours);
    const std::vector<Hypothesis> found = Lines(call, wanted).found();
    ASSERT_FALSE(found.empty());
    Call altered = call;
    ASSERT_TRUE(found[0].alter(altered));
    for (const std::string& name : names) {
      EXPECT_TRUE(same(altered.input(name), wanted.input(name))) << name;
    }
  }
}

/// Reversed in fours from the first row of each group.
Index fours_of_groups(Index i) {
  const Index origin = i < 3 ? 0 : i < 11 ? 3 : 11;
  return origin + ((i - origin) ^ 3);
}

TEST(LineOrder, MayBeginWithEachGroup) {
  const Call call = forward_call({19, 16, 64, {3, 11, 19}});
  const Call wanted = with_lines(call, kRows, 0, fours_of_groups);
  const Lines lines(call, wanted);
  EXPECT_EQ(lines.first(), kFours + ", from the first row of each group");
  Call altered = call;
  ASSERT_TRUE(lines.found()[0].alter(altered));
  EXPECT_TRUE(same(altered.input("x.codes"), wanted.input("x.codes")));
  EXPECT_TRUE(same(altered.input("x.scales"), wanted.input("x.scales")));
  EXPECT_EQ(words_of_rows({19, 16, 64, {3, 11, 19}}, fours), kFours) << "of all";
}

TEST(LineOrder, OfAllIsTakenAcrossGroups) {
  const Call call = forward_call({16, 16, 64, {6, 16}});
  const Call wanted = with_lines(call, kRows, 0, fours);
  const Lines lines(call, wanted);
  EXPECT_EQ(lines.first(), kFours);
  Call altered = call;
  ASSERT_TRUE(lines.found()[0].alter(altered));
  EXPECT_TRUE(same(altered.input("x.codes"), wanted.input("x.codes")));
}

TEST(LineOrder, LeavesSomeInTheirPlaces) {
  const auto inner = [](Index i) { return i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i; };
  const std::string found = "x=lines: the rows of x are taken in runs of 4 in the order 0, 2, 1, 3";
  EXPECT_EQ(words_of_rows({}, inner), found + " (2 x 2 transposed)");
  EXPECT_EQ(words_of_rows({}, inner, {3}), "none") << "one of four that should have stayed";
  EXPECT_EQ(words_of_rows({80, 6, 32, {80}}, inner, {3}), found + " (2 x 2 transposed)")
      << "of twenty";
}

TEST(LineOrder, LacksNoMoreThanOneLine) {
  const Shape of_128{128, 6, 32, {128}};
  EXPECT_EQ(words_of_rows(of_128, pairs, {10}), kPairs);
  EXPECT_EQ(words_of_rows(of_128, pairs, {10, 21}), kPairs) << "one of each place";
  EXPECT_EQ(words_of_rows(of_128, pairs, {10, 22}), "none");
  EXPECT_EQ(words_of_rows({30, 6, 32, {30}}, pairs, {4}), "none") << "one of fifteen";
}

TEST(LineOrder, IsOfLinesThatThereAre) {
  EXPECT_EQ(words_of_rows({10, 16, 64, {10}}, fours), kFours) << "two have no source";
  EXPECT_EQ(words_of_rows({6, 16, 64, {6}}, [](Index i) { return 5 - i; }), "none")
      << "nobody knows of the places 6 and 7";
  EXPECT_EQ(words_of_rows({20, 16, 64, {14}}, fours), kFours) << "rows from 14 on are nobody's";
}

TEST(LineOrder, IsNotLookedForBehindADistance) {
  const auto later = [](Index i) { return i + 1; };
  const Call call = forward_call({});
  EXPECT_EQ(Lines(call, with_lines(call, kRows, 0, later)).words().size(), 2u);
}

}  // namespace
}  // namespace mxo
