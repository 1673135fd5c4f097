// Terms along the depth that are missing, doubled or negated in every sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/recover/scales.h"
#include "golden/explain/recover/term_multiples.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// Multiples of terms by depth: those named are `m`, the others 1.
std::vector<int> but(Index depth, const std::vector<Index>& at, int m) {
  std::vector<int> multiple(static_cast<std::size_t>(depth), 1);
  for (const Index d : at) multiple[static_cast<std::size_t>(d)] = m;
  return multiple;
}

/// Sums of `call` in which terms count so often, the same in every group.
Tensor sums_so(const Call& call, const std::vector<int>& multiple) {
  return sums_with(*product_of(call),
                   [&](Index, Index d) { return multiple[static_cast<std::size_t>(d)]; });
}

std::vector<int> seen(const Call& call, Tensor actual, const std::vector<Index>& groups = {0}) {
  const Product p = *product_of(call);
  Came came(sums_of(p), std::move(actual));
  return multiples_of_terms(p, came.output, groups);
}

Call with_codes(const Call& call, const std::string& name, const auto& edit) {
  Call changed = call;
  Tensor codes = call.input(name);
  edit(codes.as<std::uint8_t>());
  changed.replace(name, std::move(codes));
  return changed;
}

TEST(TermMultiples, AreMeasuredFromSums) {
  const Call call = forward_call({16}, 16, 32);
  for (const int m : {-1, 0, 2}) {
    const std::vector<int> multiple = but(32, {3, 7, 8, 31}, m);
    EXPECT_EQ(seen(call, sums_so(call, multiple)), multiple);
  }
  std::vector<int> mixed = but(32, {0, 9}, 0);
  mixed[10] = -1;
  mixed[30] = 2;
  EXPECT_EQ(seen(call, sums_so(call, mixed)), mixed);
  EXPECT_EQ(seen(call, sums_so(call, but(32, {}, 1))), std::vector<int>{});
}

TEST(TermMultiples, AreThoseOfSomeGroups) {
  const Call call = forward_call({10, 10, 22}, 16, 32);
  const std::vector<int> multiple = but(32, {5}, 0);
  const Tensor actual = sums_with(*product_of(call), [&](Index g, Index d) {
    return g == 2 ? multiple[static_cast<std::size_t>(d)] : 1;
  });
  EXPECT_EQ(seen(call, actual, {2}), multiple);
  EXPECT_EQ(seen(call, actual, {0, 1, 2}), multiple) << "the others do not fail";
  EXPECT_EQ(seen(call, actual, {0}), std::vector<int>{});
  EXPECT_EQ(seen(call, actual, {}), std::vector<int>{});
  const Call gradient = gradient_call({0, 32}, 10, 12);
  const Tensor rows = sums_so(gradient, multiple);
  EXPECT_EQ(seen(gradient, rows, {1}), multiple);
  EXPECT_EQ(seen(gradient, rows, {0}), std::vector<int>{}) << "no depth";
}

TEST(TermMultiples, NeedSixtyFourSums) {
  const Call call = forward_call({8}, 8, 8);
  const std::vector<int> multiple = but(8, {2}, 0);
  Tensor actual = sums_so(call, multiple);
  EXPECT_EQ(seen(call, actual), multiple);
  actual.as<float>()[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(seen(call, actual), std::vector<int>{});
  actual.as<float>()[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(seen(call, actual), std::vector<int>{});
}

TEST(TermMultiples, AreOfSumsThatAreNotExplained) {
  const Call call = forward_call({8}, 9, 8);
  const Product p = *product_of(call);
  const std::vector<int> multiple = but(8, {2}, 0);
  Came came(sums_of(p), sums_so(call, multiple));
  for (Index i = 0; i < 8; ++i) came.output.settle(i * 9);
  EXPECT_EQ(multiples_of_terms(p, came.output, {0}), multiple);
  came.output.settle(70);
  EXPECT_TRUE(multiples_of_terms(p, came.output, {0}).empty()) << "63 of them";
}

TEST(TermMultiples, AreOfRowsAndColumnsThatFail) {
  const Call call = forward_call({24}, 24, 32);
  const std::vector<int> multiple = but(32, {5, 6}, 0);
  const Tensor wrong = sums_so(call, multiple);
  Tensor actual = sums_of(*product_of(call));
  for (Index i = 0; i < 24 * 24; ++i) {
    if (i / 24 % 2 == 0 && i % 24 >= 8) actual.as<float>()[i] = wrong.as<float>()[i];
  }
  EXPECT_EQ(seen(call, actual), multiple);
}

TEST(TermMultiples, LeaveOutLinesWithoutANumber) {
  Call call = forward_call({12}, 12, 32);
  const std::vector<int> multiple = but(32, {5}, 2);
  const Tensor actual = sums_so(call, multiple);
  const Product p = *product_of(call);
  const Tensor expected = sums_of(p);
  for (const int byte : {0xFF, 0x00}) {
    Tensor scales = call.input("x.scales");
    Tensor codes = call.input("x.codes");
    if (byte == 0xFF) scales.as<std::uint8_t>()[3] = 0xFF;
    if (byte == 0x00) std::fill_n(codes.as<std::uint8_t>() + 3 * 32, 32, std::uint8_t{0});
    Call odd = call;
    odd.replace("x.scales", std::move(scales));
    odd.replace("x.codes", std::move(codes));
    Came came(expected, actual);
    EXPECT_EQ(multiples_of_terms(*product_of(odd), came.output, {0}), multiple) << byte;
  }
}

/// Multiples of 8 terms where codes of w at some depths are zero and others are left out.
std::vector<int> with_zeros(const std::vector<Index>& zero, const std::vector<Index>& missing) {
  const Call call = with_codes(forward_call({12}, 12, 8), "w.codes", [&](std::uint8_t* codes) {
    for (Index j = 0; j < 12; ++j) {
      for (const Index d : zero) codes[j * 8 + d] = 0;
    }
  });
  return seen(call, sums_so(call, but(8, missing, 0)));
}

TEST(TermMultiples, ThatDoNotShowAreTheirNeighbours) {
  EXPECT_EQ(with_zeros({3}, {2, 4}), but(8, {2, 3, 4}, 0));
  EXPECT_EQ(with_zeros({3, 4}, {2, 5}), but(8, {2, 3, 4, 5}, 0));
  EXPECT_EQ(with_zeros({3}, {2}), but(8, {2}, 0)) << "its neighbours are not alike";
  EXPECT_EQ(with_zeros({0}, {1}), but(8, {0, 1}, 0));
  EXPECT_EQ(with_zeros({0}, {2}), but(8, {2}, 0));
  EXPECT_EQ(with_zeros({7}, {6}), but(8, {6, 7}, 0));
  EXPECT_EQ(with_zeros({0, 1, 7}, {2}), std::vector<int>{}) << "three of eight do not show";
}

TEST(TermMultiples, OfLongSumsAreFound) {
  const Call call = forward_call({16}, 16, 2080);
  const std::vector<int> multiple = but(2080, {77}, 0);
  EXPECT_EQ(seen(call, sums_so(call, multiple)), multiple);
}

std::vector<Hypothesis> found(const Call& call, Tensor actual) {
  const Product p = *product_of(call);
  Came came(sums_of(p), std::move(actual));
  std::vector<Hypothesis> list;
  add_measured_terms(p, came.output, list);
  return list;
}

/// What is said; whatever it is has to give what came.
std::string phrases(const Call& call, const Tensor& actual) {
  std::string text;
  const auto list = found(call, actual);
  for (const Hypothesis& h : list) {
    text += h.name + ": " + h.phrase + "\n";
    EXPECT_EQ(h.stage, Stage::input);
    EXPECT_TRUE(h.local);
    Call altered = call;
    EXPECT_TRUE(h.alter(altered));
    if (list.size() > 1) continue;
    const Tensor sums = sums_of(*product_of(altered));
    for (Index i = 0; i < sums.elements(); ++i) {
      EXPECT_NEAR(sums.as<float>()[i], actual.as<float>()[i], 1e-3) << i;
    }
  }
  return text;
}

TEST(Terms, AreLeftOutDoubledOrNegated) {
  const Call call = forward_call({6, 12}, 16, 40);
  const std::string k = "the products of k = ";
  EXPECT_EQ(phrases(call, sums_so(call, but(40, {3}, 0))), "k.missing: " + k + "3 are left out\n");
  EXPECT_EQ(phrases(call, sums_so(call, but(40, {0, 3, 4, 5, 39}, 0))),
            "k.missing: " + k + "0, 3 to 5 and 39 are left out\n");
  EXPECT_EQ(phrases(call, sums_so(call, but(40, {2, 36}, -1))),
            "k.negative: " + k + "2 and 36 have the other sign\n");
  for (const std::vector<Index>& at : {std::vector<Index>{5}, {33}, {5, 6, 33}}) {
    EXPECT_EQ(phrases(call, sums_so(call, but(40, at, 2))),
              "k.twice: " + k_in_words(at).insert(0, "the products of ") + " are added twice\n");
  }
  std::vector<int> mixed = but(40, {7}, 0);
  mixed[8] = -1;
  mixed[9] = 2;
  EXPECT_EQ(phrases(call, sums_so(call, mixed)),
            "k.missing: " + k + "7 are left out\nk.negative: " + k +
                "8 have the other sign\nk.twice: " + k + "9 are added twice\n");
  EXPECT_EQ(phrases(call, sums_so(call, but(40, {}, 1))), "");
}

TEST(Terms, ThatAreAllAlikeAreAnotherCause) {
  const Call call = forward_call({6, 12}, 16, 32);
  for (const int m : {-1, 0, 2}) {
    EXPECT_EQ(phrases(call, sums_so(call, but(32, range_of(32), m))), "") << m;
  }
  const Call few = forward_call({16}, 16, 4);
  for (const int m : {-1, 0, 2}) {
    const Tensor sums = sums_so(few, but(4, range_of(4), m));
    EXPECT_EQ(seen(few, sums), but(4, range_of(4), m));
    EXPECT_EQ(phrases(few, sums), "") << m;
  }
}

TEST(Terms, OfAGradientAreRowsOfItsGroups) {
  const Call call = gradient_call({32, 32, 64}, 10, 12);
  const auto came = [&](int m) {
    return sums_with(*product_of(call), [m](Index g, Index d) { return g == 2 && d == 9 ? m : 1; });
  };
  const std::string row = "the products of row 41 of dy and x ";
  EXPECT_EQ(phrases(call, came(0)), "k.missing: " + row + "are left out\n");
  EXPECT_EQ(phrases(call, came(-1)), "k.negative: " + row + "have the other sign\n");
  EXPECT_EQ(phrases(call, came(2)), "");
  EXPECT_EQ(phrases(call, sums_with(*product_of(call), [](Index, Index) { return 0; })), "");
}

TEST(Terms, AreNotSaidOfShorterSums) {
  const Call call = forward_call({12}, 16, 64);
  const auto list = found(call, sums_so(call, but(64, {40}, 0)));
  ASSERT_EQ(list.size(), 1u);
  Call shorter = forward_call({12}, 16, 40);
  EXPECT_FALSE(list[0].alter(shorter));
  Call longer = forward_call({12}, 16, 41);
  EXPECT_TRUE(list[0].alter(longer));
}

TEST(Terms, AreNotAddedTwiceWhereThereIsNoProduct) {
  const Call call = forward_call({12}, 16, 64);
  const auto list = found(call, sums_so(call, but(64, {40}, 2)));
  ASSERT_EQ(list.size(), 1u);
  Call other = call;
  other.inputs.erase("group_ends");
  EXPECT_FALSE(list[0].alter(other));
}

}  // namespace
}  // namespace mxo
