// Lines of a factor that are others': at one distance, or in an order that comes again.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

From later(Index by) {
  return [by](Index i) { return i + by; };
}

/// Both hypotheses of one distance.
Words shifted(const std::string& id, const std::string& words) {
  return {id + "=lines: " + words, id + "=lines: " + words + ", wrapping around"};
}

TEST(TakenLines, RowsAreThoseSoFarAway) {
  const Call call = forward_call({});
  const Words both{"x.codes", "x.scales"};
  EXPECT_EQ(Lines(call, with_lines(call, both, 0, later(3))).words(),
            shifted("x", "the rows of x are those of 3 after"));
  EXPECT_EQ(Lines(call, with_lines(call, both, 0, later(-1))).words(),
            shifted("x", "the rows of x are those of 1 before"));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.scales"}, 0, later(-2))).words(),
            shifted("x.scales", "the scales of the rows of x are those of 2 before"));
  EXPECT_EQ(
      Lines(call, with_lines(call, {"x.codes"}, 0, later(1))).words(),
      shifted("x.codes", "the codes of the rows of x, without their scales, are those of 1 after"));
}

TEST(TakenLines, LinesOfWeightsAreThoseSoFarAway) {
  const Call call = forward_call({8, 24, 48, {3, 8}});
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes", "w.scales"}, 1, later(-5))).words(),
            shifted("w", "the lines of w are those of 5 before"));
  EXPECT_EQ(Lines(call, with_lines(call, {"w.scales"}, 1, later(1))).words(),
            shifted("w.scales", "the scales of the lines of w are those of 1 after"));
}

TEST(TakenLines, ColumnsOfGradientsAreThoseSoFarAway) {
  const Call call = gradient_call({16, 20, 9, {4, 9}});
  EXPECT_EQ(Lines(call, with_lines(call, {"dy.codes", "dy.scales"}, 1, later(2))).words(),
            shifted("dy", "the columns of dy are those of 2 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.codes"}, 1, later(-1))).words(),
            shifted("x.codes",
                    "the codes of the columns of x, without their scales, are those of 1 before"));
}

TEST(TakenLines, WithoutScalesOfTheirOwnAreCodes) {
  Call call = forward_call({});
  call.inputs.erase("x.scales");
  call.inputs.erase("w.scales");
  EXPECT_EQ(Lines(call, with_lines(call, {"x.codes"}, 0, later(1))).words(),
            shifted("x.codes", "the rows of x are those of 1 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes"}, 1, later(1))).words(),
            shifted("w.codes", "the lines of w are those of 1 after"));
  call.replace("x.scales", mixed_scales({1}, 2));
  call.replace("w.scales", mixed_scales({1}, 4));
  EXPECT_EQ(
      Lines(call, with_lines(call, {"x.codes"}, 0, later(1))).words(),
      shifted("x.codes", "the codes of the rows of x, without their scales, are those of 1 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes"}, 1, later(1))).words(),
            shifted("w.codes",
                    "the codes of the lines of w, without their scales, are those of 1 after"));
  // Three lines of scales for 256 columns are shared, too.
  Call wide = forward_call({12, 300, 32, {12}});
  wide.replace("w.scales", mixed_scales({1, 3, 1}, 4));
  EXPECT_EQ(Lines(wide, with_lines(wide, {"w.codes"}, 1, later(1))).words(),
            shifted("w.codes",
                    "the codes of the lines of w, without their scales, are those of 1 after"));
}

TEST(TakenLines, OfOneScaleEachHaveScalesOfTheirOwn) {
  Call call = forward_call({});
  call.replace("x.scales", mixed_scales({16}, 2));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.codes", "x.scales"}, 0, later(1))).words(),
            shifted("x", "the rows of x are those of 1 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.scales"}, 0, later(-3))).words(),
            shifted("x.scales", "the scales of the rows of x are those of 3 before"));
}

TEST(TakenLines, OperandsAreTakenAsTheWordsSay) {
  const Call call = forward_call({9, 16, 64, {4, 9}});
  const Words both{"x.codes", "x.scales"};
  const Lines lines(call, with_lines(call, both, 0, later(-2)));
  const std::vector<Hypothesis> found = lines.found();
  ASSERT_EQ(found.size(), 2u);
  const From round = [](Index i) { return (i + 7) % 9; };
  for (const bool comes_round : {false, true}) {
    Call altered = call;
    EXPECT_EQ(found[comes_round].stage, Stage::input);
    ASSERT_TRUE(found[comes_round].alter(altered));
    const Call wanted = with_lines(call, both, 0, comes_round ? round : later(-2));
    for (const auto& [name, tensor] : wanted.inputs) {
      EXPECT_TRUE(same(altered.input(name), *tensor)) << name << comes_round;
    }
  }
}

const std::vector<std::string> kRows{"x.codes", "x.scales"};
const std::vector<std::string> kWeights{"w.codes", "w.scales"};

Index pairs(Index i) { return i ^ 1; }
Index fours(Index i) { return i ^ 3; }

const std::string kPairs =
    "x=lines: the rows of x are taken in runs of 2 in the order 1, 0 (reversed)";
const std::string kFours =
    "x=lines: the rows of x are taken in runs of 4 in the order 3, 2, 1, 0 (reversed)";

TEST(TakenLines, ComesAgainEveryFew) {
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

TEST(TakenLines, IsTakenFromTheOperands) {
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

TEST(TakenLines, MayBeginWithEachGroup) {
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

TEST(TakenLines, LeavesSomeInTheirPlaces) {
  const auto inner = [](Index i) { return i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i; };
  const std::string found = "x=lines: the rows of x are taken in runs of 4 in the order 0, 2, 1, 3";
  EXPECT_EQ(words_of_rows({}, inner), found + " (2 x 2 transposed)");
  EXPECT_EQ(words_of_rows({}, inner, {3}), "none") << "one of four that should have stayed";
  EXPECT_EQ(words_of_rows({80, 6, 32, {80}}, inner, {3}), found + " (2 x 2 transposed)")
      << "of twenty";
}

/// Rows from `first` to `last` take those `by` after.
From some(Index first, Index last, Index by) {
  return [=](Index i) { return i >= first && i <= last ? i + by : i; };
}

std::string after(int by) {
  return "x=lines: the rows of x are those of " + std::to_string(by) + " after";
}

std::string codes_after(int by) {
  return "x.codes=lines: the rows of x are those of " + std::to_string(by) + " after";
}

TEST(TakenLines, LeavesOutLinesWithoutASource) {
  const Shape of_24{24, 8, 64, {24}};
  const From late = [](Index i) { return i < 2 ? 20 + i : i - 2; };
  EXPECT_EQ(words_of_rows(of_24, late), "x=lines: the rows of x are those of 2 before");
  const From early = [](Index i) { return i > 21 ? 25 - i : i + 2; };
  EXPECT_EQ(words_of_rows(of_24, early), after(2));
  const From of_six = [](Index i) { return i > 3 ? 5 - i : i + 2; };
  EXPECT_EQ(words_of_rows({6, 8, 64, {6}}, of_six), after(2));
  const From of_five = [](Index i) { return i > 2 ? 4 - i : i + 2; };
  EXPECT_EQ(words_of_rows({5, 8, 64, {5}}, of_five), "none") << "three have a source";
}

TEST(TakenLines, IsTheOneWithMostLines) {
  const Shape of_300{300, 3, 32, {300}, 32, false};
  const auto two = [](Index first, Index last, Index other_first, Index other_last) {
    return [=](Index i) {
      if (i >= first && i <= last) return i + 1;
      return i >= other_first && i <= other_last ? i + 2 : i;
    };
  };
  EXPECT_EQ(words_of_rows(of_300, two(0, 9, 130, 150)), codes_after(2));
  EXPECT_EQ(words_of_rows(of_300, two(0, 9, 130, 139)), codes_after(1)) << "the first of two";
  EXPECT_EQ(words_of_rows(of_300, two(116, 127, 128, 138)), codes_after(1))
      << "runs begin at 128 and end there";
  EXPECT_EQ(words_of_rows(of_300, two(117, 127, 128, 139)), codes_after(2));
  EXPECT_EQ(words_of_rows(of_300, two(0, 9, 280, 297)), codes_after(2)) << "the last is short";
}

TEST(TakenLines, OfWeightsIsOfOneExpert) {
  const Call call = forward_call({12, 16, 32, {6, 12}});
  /// Rows of the second expert as with w of `second`.
  const auto merged = [&](const From& first, const From& second) {
    Tensor y = multiplied(with_lines(call, kWeights, 1, first));
    const Tensor other = multiplied(with_lines(call, kWeights, 1, second));
    std::copy_n(other.as<float>() + 6 * 16, 6 * 16, y.as<float>() + 6 * 16);
    return Lines(call, std::move(y)).first();
  };
  const std::string lines = "w=lines: the lines of w are those of ";
  EXPECT_EQ(merged(some(0, -1, 0), some(3, 9, 1)), lines + "1 after");
  EXPECT_EQ(merged(some(3, 9, 1), some(0, -1, 0)), lines + "1 after");
  EXPECT_EQ(merged(some(3, 9, 1), some(1, 10, 2)), lines + "2 after");
  EXPECT_EQ(merged(some(3, 9, 1), some(3, 9, 2)), lines + "1 after") << "the first of two";
}

TEST(TakenLines, IsOfAGroupWithRows) {
  for (const Index first : {0, 1}) {
    const Call call = gradient_call({12, 16, 9, {first, 9}});
    Tensor dw = multiplied(with_lines(call, {"x.codes", "x.scales"}, 1, some(0, 13, 2)));
    if (first == 0) std::fill_n(dw.as<float>(), 12 * 16, 7.0f);
    EXPECT_EQ(Lines(call, std::move(dw)).first(), "x=lines: the columns of x are those of 2 after");
  }
}

TEST(TakenLines, IsNotOfLinesThatFitAsTheyAre) {
  const Call call = forward_call({});
  Tensor y = multiplied(call);
  for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= 1.005f;
  EXPECT_EQ(Lines(call, std::move(y)).first(), "none");
}

TEST(TakenLines, DoesNotFitWhereNumbersAreNone) {
  const Call call = forward_call({24, 8, 64, {24}});
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor y = multiplied(with_lines(call, kRows, 0, some(0, 19, 1)));
    y.as<float>()[3 * 8 + 5] = bad;
    EXPECT_EQ(Lines(call, y).first(), after(1)) << "one of twenty";
    y.as<float>()[6 * 8 + 2] = bad;
    EXPECT_EQ(Lines(call, y).first(), "none");
  }
}

TEST(TakenLines, IsNotToldByZeros) {
  Call call = forward_call({});
  Tensor codes = call.input("x.codes");
  std::fill_n(codes.as<std::uint8_t>() + 8 * 64, 8 * 64, std::uint8_t{0});
  call.replace("x.codes", codes);
  EXPECT_EQ(Lines(call, with_lines(call, kRows, 0, some(0, 7, 8))).first(), "none");
}

TEST(TakenLines, LeavesOutWhatIsExplained) {
  const Call call = forward_call({});
  Tensor y = multiplied(with_lines(call, kRows, 0, some(0, 14, 1)));
  for (Index r = 0; r < 16; ++r) y.as<float>()[r * 16 + 8] = 1000.0f;
  Lines lines(call, std::move(y));
  EXPECT_EQ(lines.first(), "none");
  for (Index r = 0; r < 16; ++r) lines.came.output.settle(r * 16 + 8);
  EXPECT_EQ(lines.first(), after(1));
}

}  // namespace
}  // namespace mxo
