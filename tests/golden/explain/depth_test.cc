// Blocks and terms along the depth that are left out, added twice or negated: what is said of them,
// and that the altered call gives what came.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

using Multiples = std::vector<double>;

std::string phrases(const std::vector<Hypothesis>& list) {
  std::string text;
  for (const Hypothesis& h : list) {
    text += (text.empty() ? "" : " | ") + h.name + ": " + h.phrase;
    EXPECT_EQ(h.stage, Stage::input);
    EXPECT_TRUE(h.local);
  }
  return text;
}

/// Sums of `call` whose terms count so often: where there are fewer multiples, those of blocks.
Tensor sums_so(const Call& call, const Multiples& multiple) {
  return sums_with(*product_of(call), [&](Index g, Index d) {
    const Product p = *product_of(call);
    const Index at = p.wgrad ? p.begin(g) + d : d;
    const bool of_terms = static_cast<Index>(multiple.size()) == (p.wgrad ? p.ends.back() : p.k);
    return multiple[static_cast<std::size_t>(of_terms ? at : at / 32)];
  });
}

void expect_gives(const Call& call, const Hypothesis& h, const Tensor& actual) {
  Call altered = call;
  ASSERT_TRUE(h.alter(altered)) << h.phrase;
  const Tensor sums = sums_of(*product_of(altered));
  ASSERT_EQ(sums.shape(), actual.shape());
  for (Index i = 0; i < sums.elements(); ++i) {
    ASSERT_NEAR(sums.as<float>()[i], actual.as<float>()[i], 1e-3) << h.phrase << " at " << i;
  }
}

/// Every line of `call` measured so.
std::vector<Hypothesis> blocks(const Call& call, const std::vector<Effective>& lines) {
  std::vector<Hypothesis> list;
  add_measured_depth(*product_of(call), lines, list);
  return list;
}
Effective line(Multiples ratio, double sigma = 0.01, Index group = 0) {
  Effective e;
  e.group = group;
  e.sigma.assign(ratio.size(), sigma);
  e.ratio = std::move(ratio);
  return e;
}

/// What is said of single terms, where `actual` came.
std::vector<Hypothesis> terms(const Call& call, Tensor actual) {
  const Product p = *product_of(call);
  Came came(sums_of(p), std::move(actual));
  std::vector<Hypothesis> list;
  add_measured_terms(p, came.output, list);
  return list;
}

/// Terms of `call` that all count once but for those named.
Multiples but(Index depth, const std::vector<Index>& at, double m) {
  Multiples multiple(static_cast<std::size_t>(depth), 1.0);
  for (const Index d : at) multiple[static_cast<std::size_t>(d)] = m;
  return multiple;
}

TEST(Depth, OfBlocksIsSaidAndGivesWhatCame) {
  struct Row {
    Index k;
    Multiples ratio;
    const char* words;
  };
  for (const Row& row : {
           Row{96, {1, 1, 1}, ""},
           Row{96, {1, 0, 1}, "k.missing: the products of k = 32 to 63 are left out"},
           Row{96, {0, 1, 0}, "k.missing: the products of k = 0 to 31 and 64 to 95 are left out"},
           Row{70, {1, 1, 0}, "k.missing: the products of k = 64 to 69 are left out"},
           Row{65, {1, 1, 0}, "k.missing: the products of k = 64 are left out"},
           Row{96, {0, 0, 0}, ""},
           Row{96, {1, 2, 1}, "k.twice: the products of k = 32 to 63 are added twice"},
           Row{70, {2, 1, 2}, "k.twice: the products of k = 0 to 31 and 64 to 69 are added twice"},
           Row{96, {2, 2, 2}, ""},
           Row{384,
               {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0},
               "k.missing: the products of k = 32 to 63 of every 64 are left out"},
           Row{96,
               {2, 0, 1},
               "k.missing: the products of k = 32 to 63 are left out | k.twice: the products of k "
               "= 0 to 31 are added twice"},
       }) {
    const Call call = forward_call({1, 4}, 3, row.k);
    const auto list = blocks(call, {line(row.ratio)});
    EXPECT_EQ(phrases(list), row.words);
    if (list.size() == 1) expect_gives(call, list[0], sums_so(call, row.ratio));
  }
}

TEST(Depth, IsThatOfMostLinesThatKnowIt) {
  const Call call = forward_call({1, 4}, 3, 96);
  for (const double wrong : {0.0, 2.0}) {
    const Effective plain = line({1, 1, 1});
    const Effective odd = line({1, wrong, 1});
    EXPECT_EQ(blocks(call, {plain, odd, odd}).size(), 0u);
    EXPECT_EQ(blocks(call, {plain, odd, odd, odd, odd}).size(), 1u);
    EXPECT_EQ(blocks(call, {line({1, 1, 1}, 0.2), odd}).size(), 1u) << "one knows nothing";
    EXPECT_EQ(blocks(call, {line({1, wrong, 1}, 0.2)}).size(), 0u);
    EXPECT_EQ(blocks(call, {line({1, wrong + 0.2, 1})}).size(), 0u);
  }
  EXPECT_EQ(blocks(call, {}).size(), 0u);
}

TEST(Depth, OfAGradientIsThatOfItsGroups) {
  const Call call = gradient_call({64, 64, 150}, 3, 2);
  const Effective first = line({1, 0}, 0.01, 0);
  const Effective third = line({1, 1, 0}, 0.01, 2);
  EXPECT_EQ(phrases(blocks(call, {line({1, 1}), line({1, 1, 1}, 0.01, 2)})), "");
  EXPECT_EQ(phrases(blocks(call, {line({0, 0}), line({0, 0, 0}, 0.01, 2)})), "") << "all of them";
  EXPECT_EQ(phrases(blocks(call, {first, line({2, 1, 1}, 0.01, 2)})),
            "k.missing: the products of rows 32 to 63 of dy and x are left out");
  const auto list = blocks(call, {first, third});
  EXPECT_EQ(phrases(list),
            "k.missing: the products of rows 32 to 63 and 128 to 149 of dy and x are left out");
  expect_gives(call, list.at(0), sums_so(call, {1, 0, 1, 1, 0}));
}

TEST(Depth, OfTermsIsSaidAndGivesWhatCame) {
  struct Row {
    std::vector<Index> at;
    double multiple;
    const char* words;
  };
  const Call call = forward_call({6, 12}, 16, 40);
  for (const Row& row : {
           Row{{3}, 0, "k.missing: the products of k = 3 are left out"},
           Row{{0, 3, 4, 5, 39}, 0, "k.missing: the products of k = 0, 3 to 5 and 39 are left out"},
           Row{{2, 36}, -1, "k.negative: the products of k = 2 and 36 have the other sign"},
           Row{{5, 6, 33}, 2, "k.twice: the products of k = 5 to 6 and 33 are added twice"},
           Row{{}, 1, ""},
           Row{range_of(40), 0, ""},
           Row{range_of(40), -1, ""},
           Row{range_of(40), 2, ""},
           Row{range_of(40), 1.01, ""},
       }) {
    const Tensor actual = sums_so(call, but(40, row.at, row.multiple));
    const auto list = terms(call, actual);
    EXPECT_EQ(phrases(list), row.words);
    if (list.size() == 1) expect_gives(call, list[0], actual);
  }
  Multiples mixed = but(40, {7}, 0);
  mixed[8] = -1;
  mixed[9] = 2;
  EXPECT_EQ(phrases(terms(call, sums_so(call, mixed))),
            "k.missing: the products of k = 7 are left out | k.negative: the products of k = 8 "
            "have the other sign | k.twice: the products of k = 9 are added twice");
  const Call longer = forward_call({16}, 16, 2080);
  EXPECT_EQ(phrases(terms(longer, sums_so(longer, but(2080, {77}, 0)))),
            "k.missing: the products of k = 77 are left out");
}

TEST(Depth, OfTermsOfAGradientIsThatOfRows) {
  const Call call = gradient_call({32, 32, 64}, 10, 12);
  const std::string row = "the products of row 41 of dy and x ";
  for (const auto& [m, words] : {std::pair{0, "k.missing: " + row + "are left out"},
                                 {-1, "k.negative: " + row + "have the other sign"},
                                 {2, std::string()},
                                 {1, std::string()}}) {
    const Tensor actual = sums_so(call, but(64, {41}, m));
    const auto list = terms(call, actual);
    EXPECT_EQ(phrases(list), words);
    if (!list.empty()) expect_gives(call, list[0], actual);
  }
}

/// Terms of 8, of which codes of w are zero at some depths and others are left out.
std::string with_zeros(const std::vector<Index>& zero, const std::vector<Index>& missing) {
  Call call = forward_call({12}, 12, 8);
  Tensor codes = call.input("w.codes");
  for (Index j = 0; j < 12; ++j) {
    for (const Index d : zero) codes.as<std::uint8_t>()[j * 8 + d] = 0;
  }
  call.replace("w.codes", std::move(codes));
  return phrases(terms(call, sums_so(call, but(8, missing, 0))));
}

TEST(Depth, OfTermsThatDoNotShowIsTheirNeighbours) {
  const auto left_out = [](const std::string& k) {
    return "k.missing: the products of k = " + k + " are left out";
  };
  EXPECT_EQ(with_zeros({3}, {2, 4}), left_out("2 to 4"));
  EXPECT_EQ(with_zeros({3}, {2}), left_out("2")) << "its neighbours are not alike";
  EXPECT_EQ(with_zeros({0}, {1}), left_out("0 to 1"));
  EXPECT_EQ(with_zeros({7}, {6}), left_out("6 to 7"));
  EXPECT_EQ(with_zeros({0, 1, 7}, {2}), "") << "three of eight do not show";
}

TEST(Depth, OfTermsIsMeasuredWhereNothingIsExplained) {
  // Rows and columns that fail, of which some are settled and some are no numbers.
  const Call call = forward_call({24}, 24, 32);
  const Product p = *product_of(call);
  const Tensor wrong = sums_so(call, but(32, {5, 6}, 0));
  Tensor actual = sums_of(p);
  for (Index i = 0; i < 24 * 24; ++i) {
    if (i / 24 % 2 == 0 && i % 24 >= 8) actual.as<float>()[i] = wrong.as<float>()[i];
  }
  const std::string words = "k.missing: the products of k = 5 to 6 are left out";
  EXPECT_EQ(phrases(terms(call, actual)), words);
  actual.as<float>()[8] = std::numeric_limits<float>::quiet_NaN();
  actual.as<float>()[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(phrases(terms(call, actual)), words);
  actual.as<float>()[10] = 1e6f;
  EXPECT_EQ(phrases(terms(call, actual)), "");
  Came came(sums_of(p), actual);
  came.output.settle(10);
  std::vector<Hypothesis> list;
  add_measured_terms(p, came.output, list);
  EXPECT_EQ(phrases(list), words);
}

TEST(Depth, IsAppendedWithScalesThatFit) {
  const auto alters = [](std::vector<Index> of_x, std::vector<Index> of_w, Multiples multiple) {
    Call call = forward_call({1, 4}, 3, 96);
    call.replace("x.scales", some_scales(std::move(of_x), 5));
    call.replace("w.scales", some_scales(std::move(of_w), 6));
    const auto list = blocks(forward_call({1, 4}, 3, 96), {line(multiple)});
    Call altered = call;
    if (!list.at(0).alter(altered)) return false;
    expect_gives(call, list[0], sums_so(call, but(96, range_of(32), 2)));
    return true;
  };
  EXPECT_TRUE(alters({4, 1}, {2, 3, 1}, {2, 1, 1})) << "one scale for a line";
  EXPECT_TRUE(alters({4}, {2, 3}, {2, 1, 1}));
  EXPECT_TRUE(alters({4, 3}, {2, 3, 6}, {2, 1, 1})) << "two scales of w for a block";
  EXPECT_FALSE(alters({4, 3}, {2, 3, 2}, {2, 1, 1})) << "48 of K each";
}

TEST(Depth, IsNotSaidOfOtherCalls) {
  const Call call = forward_call({12}, 16, 64);
  const auto negative = terms(call, sums_so(call, but(64, {40}, -1)));
  const auto twice = terms(call, sums_so(call, but(64, {40}, 2)));
  ASSERT_EQ(negative.size() + twice.size(), 2u);
  Call shorter = forward_call({12}, 16, 40);
  EXPECT_FALSE(negative[0].alter(shorter));
  Call other = call;
  other.inputs.erase("group_ends");
  EXPECT_FALSE(twice[0].alter(other));
}

}  // namespace
}  // namespace mxo
