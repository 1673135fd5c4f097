// Which distance lines agree on, how many have to, and what is said where groups do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/golden/taken_scales.h"

namespace mxo {
namespace {

using Sources = std::function<Index(Index)>;

Sources by(Index distance) {
  return [distance](Index i) { return i + distance; };
}

/// Lines of x, all of one group of eight rows but where ends are given.
std::string of_x(const std::vector<Index>& lines, const Sources& from,
                 const std::vector<Index>& ends = {8}) {
  return TakenScales(product_call(ends, 6, 4), Side::a, lines, from).words();
}

const std::string kAre = "the scales of x are those of ";

/// 16 rows take scales that come again every three, and so fit one row, one block and seven blocks
/// after; `more` take what is `distance` after alone.
std::string among(Index distance, Index more) {
  Call call = product_call({60}, 6, 4);
  call.replace("x.scales", edited<float>(call, "x.scales", [](float* s) {
                             for (Index i = 0; i < 80; ++i) s[i] = 3.0f + static_cast<float>(i % 3);
                           }).input("x.scales"));
  std::vector<Index> lines = range_of(16);
  for (Index i = 0; i < more; ++i) lines.push_back(24 + i);
  const TakenScales t(call, Side::a, lines,
                      [distance](Index i) { return i + (i < 80 ? 4 : distance); });
  return t.words();
}

TEST(ScaleVotes, AreForWholeRowsWhereFourFifthsSaySo) {
  EXPECT_EQ(among(1, 4), kAre + "1 row after");
  EXPECT_EQ(among(1, 5), kAre + "1 block after");
  EXPECT_EQ(among(7, 4), kAre + "1 row after");
  EXPECT_EQ(among(7, 5), kAre + "7 blocks after");
}

TEST(ScaleVotes, AreForTheNearest) {
  // Rows are alike by turns: one, three and five rows away are all the same.
  const Call call = edited<float>(product_call({12}, 6, 4), "x.scales", [](float* s) {
    for (Index i = 8; i < 48; ++i) s[i] = s[i - 8];
  });
  EXPECT_EQ(TakenScales(call, Side::a, {3, 4, 5, 6}, by(4)).words(), kAre + "1 row before");
}

TEST(ScaleVotes, OfOneLineSayNothingOfItsStride) {
  EXPECT_EQ(of_x({3}, by(0)), "none");
  EXPECT_EQ(of_x(range_of(6), [](Index i) { return i / 4 * 5 + i % 4; }),
            "the scales of x are read 5 apart rather than 4");
}

TEST(ScaleVotes, AreOfAllWhereSevenOfTenAgree) {
  const Sources from = [](Index i) { return i < 28 ? i + 4 : i - 8; };
  EXPECT_EQ(of_x(range_of(10), from, {7, 10}), kAre + "1 row after");
  EXPECT_EQ(of_x(range_of(11), from, {7, 11}),
            kAre + "2 rows before in group 1, those of 1 row after in group 0");
}

TEST(ScaleVotes, SayNothingOfGroupsThatAreRight) {
  EXPECT_EQ(of_x(range_of(8), [](Index i) { return i < 12 ? i : i - 8; }, {3, 8}),
            kAre + "2 rows before in group 1");
}

TEST(ScaleVotes, AreOfHalfOfTheLinesAtLeast) {
  const Sources from = [](Index i) {
    const Index first[] = {4, 8, 0, 17, 0, 10, 0, 3};
    return first[i / 4] + i % 4;
  };
  EXPECT_EQ(of_x({0, 1, 3, 5}, from), kAre + "1 row after");
  EXPECT_EQ(of_x({0, 1, 3, 5, 7}, from), "none");
  EXPECT_EQ(of_x({0, 3}, from), "none") << "one of two";
  EXPECT_EQ(of_x({3}, from), kAre + "5 blocks after") << "the only one";
}

/// What lines say of which only these blocks are known.
std::string known(const std::vector<Index>& lines,
                  const std::function<bool(Index, Index)>& is_known, const Sources& from = by(4)) {
  TakenScales t(product_call({8}, 6, 4), Side::a, lines, from);
  for (Effective& e : t.seen.lines) {
    for (Index b = 0; b < 4; ++b) {
      if (!is_known(e.line, b)) e.sigma[static_cast<std::size_t>(b)] = 1e300;
    }
  }
  return t.words();
}

TEST(ScaleVotes, AreOfAThirdOfTheLines) {
  const auto two_lines = [](Index line, Index) { return line < 2; };
  EXPECT_EQ(known(range_of(6), two_lines), kAre + "1 row after");
  EXPECT_EQ(known(range_of(7), two_lines), "none");
}

TEST(ScaleVotes, AreOfTwoBlocksAtLeast) {
  EXPECT_EQ(known(range_of(7), [](Index, Index b) { return b < 2; }), kAre + "1 row after");
  EXPECT_EQ(known(range_of(7), [](Index, Index b) { return b == 2; }), "none");
}

TEST(ScaleVotes, AreOfEveryBlock) {
  for (const Index odd : {0, 1, 3}) {
    EXPECT_EQ(of_x(range_of(7), [=](Index i) { return i % 4 == odd ? i * 5 % 28 : i + 4; }), "none")
        << odd;
  }
}

TEST(ScaleVotes, OfOneScaleAreOfTheLinesOwn) {
  const auto first_and = [](Index more) { return [more](Index i) { return i / 4 * 4 + more; }; };
  EXPECT_EQ(of_x({1, 2, 3, 4, 5, 6}, first_and(3)),
            "every K block of x takes the scale of block 3");
  EXPECT_EQ(of_x({1, 2, 3, 4, 5, 6}, first_and(4)), "none");
  EXPECT_EQ(of_x({1, 2, 3, 4, 5, 6}, first_and(-1)), "none");
}

TEST(ScaleVotes, OfScalesThatAreMostlyAlikeAreNone) {
  const Call call = edited<float>(product_call({400}, 6, 4), "x.scales",
                                  [](float* s) { std::fill_n(s + 80, 1520, 3.0f); });
  EXPECT_EQ(TakenScales(call, Side::a, range_of(10), [](Index) { return 90; }).words(), "none");
}

TEST(ScaleVotes, OfExpertsAndColumnsAreOfRows) {
  const TakenScales t(product_call({3, 8}, 6, 4), Side::b, range_of(5),
                      [](Index i) { return i < 24 ? i + 24 : i + 4; });
  EXPECT_EQ(
      t.words(),
      "the scales of w are those of 1 row after in group 1, those of 6 rows after in group 0");
}

TEST(ScaleVotes, OfOneExpertAreThatOfAnother) {
  TakenScales t(product_call({3, 8}, 6, 4), Side::b, range_of(6), [](Index i) { return i % 24; });
  std::erase_if(t.seen.lines, [](const Effective& e) { return e.group == 0; });
  EXPECT_EQ(t.words(), "expert 1 takes the scales of expert 0 (w)");
}

/// dy [320, 5] and x [320, columns] in two groups, ten rows of scales.
Call gradient_of(Index columns) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", mixed_codes({320, 5}, 1));
  call.replace("x.codes", mixed_codes({320, columns}, 3));
  const auto bytes = [](Index i) { return 60 + i * 37 % 101; };
  call.replace("dy.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 5}, bytes));
  call.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {10, columns}, bytes));
  call.replace("group_ends",
               filled<std::int32_t>(Dtype::i32, {2}, [](Index g) { return 160 * (g + 1); }));
  return call;
}

TEST(ScaleVotes, OfAGradientOfOneColumnAreBlocks) {
  TakenScales t(gradient_of(1), Side::b, {0}, [](Index i) { return std::min<Index>(i + 1, 9); });
  t.seen.lines.back().sigma.back() = 1e300;
  EXPECT_EQ(t.words(), "the scales of x are those of 1 block after");
  EXPECT_EQ(t.sources().at(0), (std::vector<Index>{1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
}

TEST(ScaleVotes, OfAGradientOfOneColumnMayBeThatOfOneBlock) {
  const TakenScales t(gradient_of(1), Side::b, {0}, [](Index i) { return i / 5 * 5; });
  EXPECT_EQ(t.words(), "every K block of x takes the scale of block 0");
  EXPECT_EQ(t.sources().at(0), (std::vector<Index>{0, 0, 0, 0, 0, 5, 5, 5, 5, 5}));
}

TEST(ScaleVotes, OfAGradientAreAgreedOn) {
  // Each line takes one scale for all of its blocks, and no two lines at one distance.
  const Index sources[] = {30, 7, 21, 2, 39, 11, 26, 13};
  const TakenScales t(gradient_of(4), Side::b, range_of(4),
                      [&](Index i) { return sources[i % 4 + (i < 20 ? 0 : 4)]; });
  EXPECT_EQ(t.words(), "none");
}

TEST(ScaleVotes, OfAGradientAreOfOneDistance) {
  const TakenScales t(gradient_of(4), Side::b, range_of(4),
                      [](Index i) { return i < 20 ? i + 4 : i - 4; });
  EXPECT_EQ(t.words(), "none");
}

TEST(ScaleVotes, OfAGradientMayLieAlongRows) {
  const TakenScales t(gradient_of(4), Side::b, range_of(4),
                      [](Index i) { return i / 20 * 20 + i % 4 + i % 20 / 4; });
  EXPECT_EQ(t.words(),
            "the scales of x are read along the wrong axis (blocks 1 apart rather than 4)");
}

TEST(ScaleVotes, OfAGradientAreOfEachGroup) {
  const Sources first = [](Index i) { return i / 20 * 20 + i % 4; };
  const TakenScales t(gradient_of(4), Side::b, range_of(4), first);
  EXPECT_EQ(t.words(), "every K block of x takes the scale of block 0");
  std::vector<Index> expected;
  for (Index i = 0; i < 40; ++i) expected.push_back(first(i));
  EXPECT_EQ(t.sources().at(0), expected);
}

}  // namespace
}  // namespace mxo
