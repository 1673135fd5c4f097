// What differences look like in words where no cause is known, and where they lie: runs, periods,
// groups, orders of neighbours.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "golden/explain/words/permutation.h"
#include "golden/explain/words/places.h"

namespace mxo::pattern_test {
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
  for (Index i = 0; i < 64; ++i)
    if (wrong(i + 1)) got.as<float>()[i] = 100;
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
  for (Index i = 0; i < 100; ++i)
    if (i % 16 >= 8 && i % 16 <= 10) halves.push_back(i);
  EXPECT_EQ(ranges(halves), "8-10 mod 16");
  EXPECT_EQ(ranges_in_words("row", halves), "rows 8 to 10 of every 16");
  EXPECT_EQ(ranges_in_words("row", halves, 400), "rows 8 to 10 of every 16 up to 90");
  EXPECT_EQ(ranges_in_words("row", from_to(1, 19, 2), 400), "every 2nd row from 1 to 19");
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
}  // namespace mxo::pattern_test
