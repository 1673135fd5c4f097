// How long a run of one bit pattern is, along rows and down columns, to be a part nobody wrote.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/filled_runs.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

TEST(UnwrittenRuns, HoldEightOrSixteenBytes) {
  for (const Dtype dtype :
       {Dtype::u8, Dtype::e4m3, Dtype::i16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    const Index least = size_of(dtype) == 1 ? 16 : 8;
    const Tensor owed = of_no_fill(dtype, {2, 40});
    EXPECT_EQ(fills_said(owed, with_fill(owed, 45, least - 1, 0)), Words{});
    EXPECT_EQ(fills_said(owed, with_fill(owed, 45, least, 0)),
              Words{zeros_at(least,
                             "columns 5 to " + std::to_string(4 + least) + " of row 1 of y hold")});
  }
}

TEST(UnwrittenRuns, OfShortRowsAreTheRow) {
  const Tensor owed = of_no_fill(Dtype::f32, {6, 4});
  EXPECT_EQ(fills_said(owed, with_fill(with_fill(owed, 4, 4, 0), 12, 4, 0)),
            Words{zeros_at(8, "rows 1 and 3 of y hold")});
  EXPECT_EQ(fills_said(owed, with_fill(owed, 4, 4, 0)), Words{}) << "four are too few";
  Tensor three = owed;
  for (Index r = 0; r < 6; ++r) three = with_fill(std::move(three), 4 * r, 3, 0);
  EXPECT_EQ(fills_said(owed, three), Words{});
}

/// Zeros that are owed count for the run, but more than half of it is wrong.
TEST(UnwrittenRuns, AreWrongByMoreThanHalf) {
  const auto of = [](Index owed_zeros) {
    const Tensor owed = with_fill(of_no_fill(Dtype::f32, {2, 40}), 44, owed_zeros, 0);
    return fills_said(owed, with_fill(owed, 42, 16, 0));
  };
  EXPECT_EQ(of(8), Words{});
  EXPECT_EQ(of(7), Words{zeros_at(9, "columns 2 to 3 and 11 to 17 of row 1 of y hold")});
}

TEST(UnwrittenRuns, HoldNothingThatIsExplained) {
  const Tensor owed = of_no_fill(Dtype::f32, {2, 40});
  Came came(owed, with_fill(owed, 44, 12, 0));
  for (const Index i : {44, 50}) came.output.settle(i);
  EXPECT_EQ(fills_said(came),
            Words{zeros_at(10, "columns 5 to 9 and 11 to 15 of row 1 of y hold")});
  EXPECT_EQ(came.output.left, 0);
}

TEST(UnwrittenRuns, GoDownSixteenRows) {
  const auto of = [](Index rows, Index filled) {
    const Tensor owed = of_no_fill(Dtype::f32, {rows, 21});
    return fills_said(owed, with_fill(owed, 3, filled, 0, 21));
  };
  EXPECT_EQ(of(15, 15), Words{});
  EXPECT_EQ(of(16, 15), Words{});
  EXPECT_EQ(of(16, 16), Words{zeros_at(16, "column 3 of y holds")});
  EXPECT_EQ(of(17, 16), Words{zeros_at(16, "column 3 of rows 0 to 15 of y holds")});
}

TEST(UnwrittenRuns, GoDownAFourthOfTheRows) {
  const Tensor owed = of_no_fill(Dtype::f32, {80, 21});
  EXPECT_EQ(fills_said(owed, with_fill(owed, 3 + 21, 19, 0, 21)), Words{});
  EXPECT_EQ(fills_said(owed, with_fill(owed, 3 + 21, 20, 0, 21)),
            Words{zeros_at(20, "column 3 of rows 1 to 20 of y holds")});
}

TEST(UnwrittenRuns, DownColumnsPassRowsThatAreRight) {
  const Tensor owed = of_no_fill(Dtype::f32, {40, 21});
  const Tensor came = with_fill(with_fill(owed, 3, 16, 0, 21), 20 * 21 + 4, 20, 0, 21);
  Came c(owed, came);
  const auto claims = recover_unwritten(c.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "0-15, 20-39");
  EXPECT_EQ(claims[0].where.columns, "3-4");
  EXPECT_EQ(claims[0].elements, 36);
  EXPECT_EQ(c.output.left, 0);
}

TEST(UnwrittenRuns, OfTwoColumnsAreOnePlace) {
  const Tensor owed = of_no_fill(Dtype::bf16, {16, 21});
  const Tensor came = with_fill(with_fill(owed, 3, 16, 0, 21), 4, 16, 0, 21);
  EXPECT_EQ(fills_said(owed, came), Words{zeros_at(32, "columns 3 to 4 of y hold")});
}

TEST(UnwrittenRuns, ThatCrossCountOnce) {
  const Tensor owed = of_no_fill(Dtype::f32, {16, 21});
  const Tensor came = with_fill(with_fill(owed, 5 * 21, 21, 0), 3, 16, 0, 21);
  EXPECT_EQ(fills_said(owed, came), Words{zeros_at(36, "all of y hold")});
}

TEST(UnwrittenRuns, EndWithTheRowsThatAreOwed) {
  const Tensor owed = of_no_fill(Dtype::f32, {20, 10});
  Came came(owed, with_fill(owed, 170, 30, 0));
  came.output.ends = {6, 18};
  came.output.owed = 18;
  EXPECT_EQ(fills_said(came), Words{zeros_at(10, "row 17 of group 1 of y holds")});
  EXPECT_EQ(came.output.left, 20);
}

}  // namespace
}  // namespace mxo
