// Lines that others' parts may have given: how many, which of them, and of what they are held up
// to.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

const std::vector<std::string> kRows{"x.codes", "x.scales"};
const std::vector<std::string> kWeights{"w.codes", "w.scales"};

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

TEST(LineRun, HasFourLinesThatFail) {
  EXPECT_EQ(words_of_rows({}, some(2, 5, 1)), after(1));
  EXPECT_EQ(words_of_rows({}, some(2, 4, 1)), "none");
  EXPECT_EQ(words_of_rows({}, some(1, 4, -1)), "x=lines: the rows of x are those of 1 before")
      << "the first row is a source";
  const Call call = forward_call({});
  EXPECT_EQ(Lines(call, with_lines(call, kWeights, 1, some(0, 3, 1))).first(),
            "w=lines: the lines of w are those of 1 after")
      << "the first line fails";
}

TEST(LineRun, MayHaveOneColumn) {
  EXPECT_EQ(words_of_rows({16, 1, 64, {16}}, some(0, 14, 1)), after(1));
}

TEST(LineRun, LeavesOutLinesWithoutASource) {
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

TEST(LineRun, FitsInNineteenOfTwenty) {
  const Shape of_24{24, 8, 64, {24}};
  EXPECT_EQ(words_of_rows(of_24, some(0, 19, 1), {7}), after(1));
  EXPECT_EQ(words_of_rows(of_24, some(0, 18, 1), {7}), "none");
}

TEST(LineRun, EndsAtTheFifthThatDoesNotFit) {
  const Shape of_130{130, 3, 32, {130}, 32, false};
  EXPECT_EQ(words_of_rows(of_130, some(0, 119, 1), {1, 3, 5, 7}), codes_after(1));
  EXPECT_EQ(words_of_rows(of_130, some(0, 119, 1), {1, 3, 5, 7, 9}), "none");
}

TEST(LineRun, IsTheOneWithMostLines) {
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

TEST(LineRun, ReachesSixtyFourLines) {
  const Shape of_200{200, 3, 32, {200}, 32, false};
  EXPECT_EQ(words_of_rows(of_200, some(100, 110, 64)), codes_after(64));
  EXPECT_EQ(words_of_rows(of_200, some(100, 110, 65)), "none");
}

TEST(LineRun, OfWeightsIsOfOneExpert) {
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

TEST(LineRun, IsOfAGroupWithRows) {
  for (const Index first : {0, 1}) {
    const Call call = gradient_call({12, 16, 9, {first, 9}});
    Tensor dw = multiplied(with_lines(call, {"x.codes", "x.scales"}, 1, some(0, 13, 2)));
    if (first == 0) std::fill_n(dw.as<float>(), 12 * 16, 7.0f);
    EXPECT_EQ(Lines(call, std::move(dw)).first(), "x=lines: the columns of x are those of 2 after");
  }
}

TEST(LineRun, FitsWithinAHundredth) {
  const Call call = forward_call({});
  const auto times = [&](float by) {
    Tensor y = multiplied(with_lines(call, kRows, 0, some(0, 14, 1)));
    for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= by;
    return Lines(call, std::move(y)).first();
  };
  EXPECT_EQ(times(1.009f), after(1));
  EXPECT_EQ(times(0.992f), after(1));
  EXPECT_EQ(times(1.012f), "none");
  EXPECT_EQ(times(-1.0f), "none");
}

TEST(LineRun, IsNotOfLinesThatFitAsTheyAre) {
  const Call call = forward_call({});
  Tensor y = multiplied(call);
  for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= 1.005f;
  EXPECT_EQ(Lines(call, std::move(y)).first(), "none");
}

TEST(LineRun, DoesNotFitWhereNumbersAreNone) {
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

TEST(LineRun, IsNotToldByZeros) {
  Call call = forward_call({});
  Tensor codes = call.input("x.codes");
  std::fill_n(codes.as<std::uint8_t>() + 8 * 64, 8 * 64, std::uint8_t{0});
  call.replace("x.codes", codes);
  EXPECT_EQ(Lines(call, with_lines(call, kRows, 0, some(0, 7, 8))).first(), "none");
}

TEST(LineRun, LeavesOutWhatIsExplained) {
  const Call call = forward_call({});
  Tensor y = multiplied(with_lines(call, kRows, 0, some(0, 14, 1)));
  for (Index r = 0; r < 16; ++r) y.as<float>()[r * 16 + 8] = 1000.0f;
  Lines lines(call, std::move(y));
  EXPECT_EQ(lines.first(), "none");
  for (Index r = 0; r < 16; ++r) lines.came.output.settle(r * 16 + 8);
  EXPECT_EQ(lines.first(), after(1));
}

/// What is found where rows moved, and these columns are wrong.
std::string with_wrong_columns(Index n, const std::vector<Index>& wrong) {
  const Call call = forward_call({5, n, 32, {5}});
  Tensor y = multiplied(with_lines(call, kRows, 0, some(0, 3, 1)));
  for (Index r = 0; r < 5; ++r) {
    for (const Index c : wrong) y.as<float>()[r * n + c] = 1000.0f;
  }
  return Lines(call, std::move(y)).first();
}

std::vector<Index> all_but(Index first, Index last, const std::vector<Index>& list) {
  std::vector<Index> others;
  for (Index i = first; i < last; ++i) {
    if (std::find(list.begin(), list.end(), i) == list.end()) others.push_back(i);
  }
  return others;
}

TEST(LineRun, LooksAtTwelveColumns) {
  for (Index c = 0; c < 12; ++c) EXPECT_EQ(with_wrong_columns(12, {c}), "none") << c;
  EXPECT_EQ(with_wrong_columns(13, {1}), after(1));
  const std::vector<Index> spread{0, 4, 8, 10, 14, 18, 20, 24, 28, 30, 34, 38};
  EXPECT_EQ(with_wrong_columns(40, all_but(0, 40, spread)), after(1)) << "not all of one stride";
  for (const Index c : {0, 4, 38}) EXPECT_EQ(with_wrong_columns(40, {c}), "none") << c;
}

TEST(LineRun, LooksAtTwelveRowsOfTheGroup) {
  const Call call = forward_call({50, 5, 32, {10, 50}});
  Tensor y = multiplied(call);
  const Tensor moved = multiplied(with_lines(call, kWeights, 1, some(0, 3, 1)));
  std::copy_n(moved.as<float>() + 50, 200, y.as<float>() + 50);
  const std::vector<Index> spread{10, 14, 18, 20, 24, 28, 30, 34, 38, 40, 44, 48};
  const Lines lines(call, with_wrong_rows(y, all_but(10, 50, spread)));
  EXPECT_EQ(lines.first(), "w=lines: the lines of w are those of 1 after");
  EXPECT_EQ(Lines(call, with_wrong_rows(y, {44})).first(), "none");
}

}  // namespace
}  // namespace mxo
