// What differences look like, in words, where no cause is known.
#include "golden/explain/words/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace mxo {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor made(Index rows, const std::vector<float>& values) {
  Tensor t(Dtype::f32, {rows, static_cast<Index>(values.size()) / rows});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

/// The words for rows of which what is expected and the actual output are given.
std::string words(Index rows, const std::vector<float>& expected, const std::vector<float>& got) {
  const Tensor want = made(rows, expected);
  const Tensor actual = made(rows, got);
  return pattern_of(make_output(Call{"op", {}, {}}, "y", want, actual));
}

/// For 3, 4, 5 and so on, eight of them, of which the first came as others.
std::string of_eight(const std::vector<float>& first) {
  std::vector<float> expected{3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<float> got = expected;
  std::copy(first.begin(), first.end(), got.begin());
  return words(1, expected, got);
}

/// For 1 to 24 in a row, each as `change` gives it.
template <typename Change>
std::string of_many(const Change& change) {
  std::vector<float> expected;
  std::vector<float> got;
  for (int i = 1; i <= 24; ++i) {
    expected.push_back(static_cast<float>(i));
    got.push_back(change(static_cast<float>(i)));
  }
  return words(1, expected, got);
}

/// Ends that came as 8, 12, 32 rather than 8, 16, 32.
std::string of_ends(const char* name) {
  Tensor want(Dtype::i32, {3});
  const std::int32_t ends[] = {8, 16, 32};
  std::copy(std::begin(ends), std::end(ends), want.as<std::int32_t>());
  Tensor got = want;
  got.as<std::int32_t>()[1] = 12;
  return pattern_of(make_output(Call{"op", {}, {}}, name, want, got));
}

TEST(Pattern, RowsOfGroupsFollowWhereEndsAreBeginnings) {
  EXPECT_TRUE(of_ends("group_ends").ends_with("ends at 12 rather than 16: it has 4 rows"));
  EXPECT_TRUE(of_ends("padded_ends").ends_with("ends at 12 rather than 16"));
}

TEST(Pattern, TellsTilesThatDifferAsAWhole) {
  std::vector<float> expected(4 * 64, 1.0f);
  std::vector<float> got = expected;
  for (std::size_t i = 0; i < 16; ++i) got[16 + i] = got[80 + i] = got[176 + i] = 3.0f;
  EXPECT_EQ(words(4, expected, got),
            "48 elements differ in columns 16 to 31 of rows 0 to 1 of y and columns 48 to 63 of "
            "row 2 of y; all are larger in magnitude; -6.0 dB among them; they are nearly what is "
            "expected times 3");
}

TEST(Pattern, CountsElementsAndTheirShareOfThePlace) {
  EXPECT_EQ(of_eight({2.5f}), "1 element differs in element 0 of y; 15.5 dB among them");
  // A box of two by two, of which three differ.
  EXPECT_EQ(words(2, {1, 1, 1, 1}, {1, 2, 2, 2.5f}),
            "3 elements differ in all of y; 75 % of the elements there; -1.5 dB among them");
  std::vector<float> expected(400, 1.0f);
  std::vector<float> got = expected;
  for (std::size_t i = 0; i < 20; ++i) got[i * 21] = i % 2 == 0 ? 3.0f : 0.5f;
  EXPECT_EQ(words(20, expected, got),
            "20 elements differ in all of y; 5 % of the elements there; -3.2 dB among them");
  expected.assign(101 * 101, 1.0f);
  got = expected;
  for (std::size_t i = 0; i < 101; ++i) got[i * 102] = i % 2 == 0 ? 3.0f : 0.5f;
  EXPECT_EQ(
      words(101, expected, got),
      "101 elements differ in all of y; less than 1 % of the elements there; -3.3 dB among them");
}

TEST(Pattern, NamesNaNsAndInfinities) {
  EXPECT_EQ(of_eight({kInf}), "1 element differs in element 0 of y; all are infinite");
  EXPECT_EQ(of_eight({kNaN, kNaN, 0, 0}),
            "4 elements differ in elements 0 to 3 of y; 2 of 4 are NaN where a number is expected; "
            "2 of 4 are zero; 0.0 dB among them")
      << "of two numbers both are zero";
  EXPECT_EQ(words(1, {kNaN, kNaN, 3, 4}, {1, 1, 0, 0}),
            "4 elements differ in all of y; 2 of 4 are numbers where NaN is expected; 2 of 4 are "
            "zero; 0.0 dB among them");
  EXPECT_EQ(of_eight({kNaN, kNaN}),
            "2 elements differ in elements 0 to 1 of y; all are NaN where a number is expected");
  EXPECT_EQ(words(1, {kNaN, kNaN, 3}, {1, kNaN, 4}),
            "2 elements differ in elements 0 and 2 of y; 1 of 2 are numbers where NaN is expected; "
            "9.5 dB among them");
  EXPECT_EQ(words(1, {kInf, 2}, {1, 3}), "2 elements differ in all of y; 6.0 dB among them");
}

/// For x of 1 to 64, of which those came as others that `wrong` holds of.
template <typename Wrong>
std::string of_operands(const Wrong& wrong) {
  Tensor x(Dtype::f32, {4, 16});
  for (Index i = 0; i < 64; ++i) x.as<float>()[i] = static_cast<float>(i + 1) * (i % 2 ? -1 : 1);
  Tensor got = x;
  for (Index i = 0; i < 64; ++i) {
    if (wrong(i + 1)) got.as<float>()[i] = 100;
  }
  const Call call{"op", {{"x", std::make_shared<const Tensor>(x)}}, {}};
  return operands_seen(call, make_output(call, "y", x, got));
}

TEST(Pattern, NamesTheNumbersOfTheOperand) {
  const auto exactly = [](const char* what) {
    return std::string("exactly the elements of x with a ") + what + " differ";
  };
  EXPECT_EQ(of_operands([](Index v) { return v >= 20; }), exactly("magnitude of 20 and more"));
  EXPECT_EQ(of_operands([](Index v) { return v < 20; }), exactly("magnitude of 19 and less"));
  EXPECT_EQ(of_operands([](Index v) { return v > 9 && v < 40; }), exactly("magnitude of 10 to 39"));
  EXPECT_EQ(of_operands([](Index v) { return v > 50 || v < 20; }), "") << "no range, no mantissas";
  EXPECT_EQ(of_operands([](Index v) { return v > 60; }), "") << "four are few";
  EXPECT_EQ(of_operands([](Index v) { return v < 60; }), "") << "all but five";
  const std::set<Index> even{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 5, 10, 20, 40};
  EXPECT_EQ(of_operands([&](Index v) { return even.contains(v); }),
            exactly("mantissa of 1 or 1.25 or 1.5"));
}

TEST(Pattern, NamesZerosAndSigns) {
  EXPECT_EQ(of_eight({0, 0, 4}),
            "3 elements differ in elements 0 to 2 of y; 2 of 3 are zero; 2.8 dB among them");
  EXPECT_EQ(
      of_eight({-3, -4, 4}),
      "3 elements differ in elements 0 to 2 of y; 2 of 3 have the other sign; -3.0 dB among them");
  EXPECT_EQ(of_eight({0, 0, 0, 0, 0}),
            "5 elements differ in elements 0 to 4 of y; all are zero; 0.0 dB among them");
}

TEST(Pattern, NamesNeighbours) {
  const auto up = [](float x) { return std::nextafter(x, kInf); };
  const auto down = [](float x) { return std::nextafter(x, 0.0f); };
  EXPECT_EQ(of_many(up),
            "24 elements differ in all of y; all are neighbours of what is expected, all larger in "
            "magnitude; only bit 0; 140.7 dB among them");
  EXPECT_EQ(of_many(down),
            "24 elements differ in all of y; all are neighbours of what is expected, all smaller "
            "in magnitude; 141.1 dB among them");
  EXPECT_EQ(of_many([&](float x) { return x < 4 ? up(x) : down(x); }),
            "24 elements differ in all of y; all are neighbours of what is expected, larger and "
            "smaller; 141.1 dB among them");
}

TEST(Pattern, NamesTheSideThatAllLieOn) {
  EXPECT_EQ(
      of_eight({3.5f, 5, 6, 8, 9}),
      "5 elements differ in elements 0 to 4 of y; all are larger in magnitude; 11.1 dB among them");
  EXPECT_EQ(
      of_eight({2.5f, 3, 4, 4, 1}),
      "5 elements differ in elements 0 to 4 of y; all are smaller in magnitude; 5.0 dB among them");
}

TEST(Pattern, NamesTheOnlyBitThatDiffers) {
  EXPECT_EQ(words(1, {1, 2, 5}, {1.5f, 3, 5}),
            "2 elements differ in elements 0 to 1 of y; only bit 22; 6.0 dB among them");
}

TEST(Pattern, NamesAFactorThatNearlyHolds) {
  const auto nearly = [](float by) {
    return [by](float x) { return x * by + (std::fmod(x, 2.0f) < 1 ? 0.01f : -0.01f); };
  };
  EXPECT_EQ(of_many(nearly(0.5f)),
            "24 elements differ in all of y; all are smaller in magnitude; 6.0 dB among them; they "
            "are nearly what is expected times 0.5");
  EXPECT_EQ(of_many(nearly(1.01f)),
            "23 elements differ in elements 1 to 23 of y; all are larger in magnitude; 39.9 dB "
            "among them")
      << "a factor of nearly one is none";
  EXPECT_EQ(of_many([](float x) { return x * (std::fmod(x, 2.0f) < 1 ? 0.5f : 0.6f); }),
            "24 elements differ in all of y; all are smaller in magnitude; 6.8 dB among them");
  const auto times = [](int n, float by, float unit = 1.0f) {
    std::vector<float> expected;
    std::vector<float> got;
    for (int i = 1; i <= n; ++i) {
      expected.push_back(static_cast<float>(i) * unit);
      got.push_back(expected.back() * by);
    }
    return words(1, expected, got);
  };
  EXPECT_EQ(times(16, 0.25f),
            "16 elements differ in all of y; all are smaller in magnitude; 2.4 dB among them; they "
            "are nearly what is expected times 0.25");
  EXPECT_NE(times(16, 0.25f, 0x1p-8f).find("times 0.25"), std::string::npos) << "of small numbers";
  EXPECT_EQ(times(16, 0.0f), "16 elements differ in all of y; all are zero; 0.0 dB among them")
      << "zeros are no multiple";
}

}  // namespace
}  // namespace mxo
