// Blocks of one side that met other blocks of the other along the depth.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// Of block b of the second side the block of the first that it met; -1: none.
using Met = std::vector<Index>;

/// The output of `call` where, in group g, block b of the second side met block met[b].
Tensor met_so(const Call& call, const Met& met, Index group = -1, Index block = 32) {
  const Product p = *product_of(call);
  return output_of(p, [&](Index g, const auto& a, const auto& b) {
    double sum = 0.0;
    for (std::size_t d = 0; d < b.size(); ++d) {
      const auto own = static_cast<Index>(d) / block;
      const Index from = group < 0 || g == group ? met[static_cast<std::size_t>(own)] : own;
      if (from < 0) continue;
      const auto at = static_cast<std::size_t>(from * block + static_cast<Index>(d) % block);
      if (at < a.size()) sum += a[at] * b[d];
    }
    return sum;
  });
}

Effective measured(double misfit) {
  Effective e;
  e.misfit = misfit;
  return e;
}

std::vector<Hypothesis> found(const Call& call, Tensor actual, double misfit = 1.0) {
  const Product p = *product_of(call);
  Came came(sums_of(p), std::move(actual));
  std::vector<Hypothesis> list;
  add_measured_pairing(p, came.output, {measured(0.0), measured(misfit)}, list);
  return list;
}

std::string words(const std::vector<Hypothesis>& list) {
  std::string text;
  for (const Hypothesis& h : list) {
    EXPECT_EQ(h.stage, Stage::input);
    EXPECT_TRUE(h.local);
    text += h.name + ": " + h.phrase + "\n";
  }
  return text;
}

/// Whether hypothesis `at` gives what came.
bool gives(const Call& call, const Hypothesis& h, const Tensor& actual) {
  Call altered = call;
  EXPECT_TRUE(h.alter(altered));
  const Tensor sums = sums_of(*product_of(altered));
  for (Index i = 0; i < sums.elements(); ++i) {
    if (std::abs(sums.as<float>()[i] - actual.as<float>()[i]) > 1e-3f) return false;
  }
  return true;
}

/// The same words four times: of both sides, with and without their scales.
std::string of_both(const std::string& text) {
  return "x=blocks: " + text + ", with their scales\nx=blocks: " + text +
         ", without their scales\nw=blocks: " + text + ", with their scales\nw=blocks: " + text +
         ", without their scales\n";
}

constexpr const char* kExchanged =
    "k = 64 to 95 of x meet k = 32 to 63 of w, k = 32 to 63 of x meet k = 64 to 95 of w";

Call forward(Index k = 128) { return forward_call({3, 9}, 40, k); }

TEST(Pairing, OfExchangedBlocksIsFound) {
  const Call call = forward();
  const Tensor actual = met_so(call, {0, 2, 1, 3});
  const auto list = found(call, actual);
  ASSERT_EQ(words(list), of_both(kExchanged));
  EXPECT_TRUE(gives(call, list[0], actual));
  EXPECT_FALSE(gives(call, list[1], actual));
  EXPECT_TRUE(gives(call, list[2], actual));
  EXPECT_FALSE(gives(call, list[3], actual));
}

TEST(Pairing, OfBlocksThatMeetNothingIsFound) {
  const Call call = forward();
  const Tensor actual = met_so(call, {0, 2, -1, 3});
  const auto list = found(call, actual);
  ASSERT_EQ(words(list), of_both("k = 64 to 95 of x meet k = 32 to 63 of w, k = 64 to 95 of w meet "
                                 "nothing"));
  EXPECT_TRUE(gives(call, list[0], actual));
}

TEST(Pairing, OfABlockThatTwoMeetIsFound) {
  const Call call = forward();
  const Tensor actual = met_so(call, {0, 0, 2, 3});
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].phrase, "k = 0 to 31 of x meet k = 32 to 63 of w, with their scales");
  EXPECT_TRUE(gives(call, list[0], actual));
}

TEST(Pairing, OfManyBlocksIsToldByTheFirstFour) {
  const Call call = forward(192);
  const auto list = found(call, met_so(call, {1, 0, 3, 2, 5, 4}));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(list[0].phrase.ends_with(
      "k = 64 to 95 of x meet k = 96 to 127 of w, and so on for 6 blocks, with their scales"))
      << list[0].phrase;
  const Call four = forward();
  EXPECT_EQ(found(four, met_so(four, {1, 0, 3, 2}))[0].phrase.find("so on"), std::string::npos);
}

TEST(Pairing, OfAShortLastBlockThatMeetsNothing) {
  const Call call = forward(112);
  const Tensor actual = met_so(call, {0, 2, 1, -1});
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(gives(call, list[0], actual));
  EXPECT_TRUE(gives(call, list[2], actual));
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  const auto* was = call.input("x.codes").as<std::uint8_t>();
  const auto* is = altered.input("x.codes").as<std::uint8_t>();
  for (Index r = 0; r < 9; ++r) {
    for (Index d = 0; d < 32; ++d) EXPECT_EQ(is[r * 112 + d], was[r * 112 + d]);
    for (Index d = 96; d < 112; ++d) EXPECT_EQ(is[r * 112 + d], 0);
  }
}

TEST(Pairing, WithoutScalesIsOfCodes) {
  Call call = forward();
  call.inputs.erase("x.scales");
  call.replace("w.scales", some_scales({2, 40}, 7));
  const Tensor actual = met_so(call, {0, 2, 1, 3});
  const auto list = found(call, actual);
  const std::string text =
      "k = 64 to 95 of x meet k = 32 to 63 of w, k = 32 to 63 of x meet k = 64 to 95 of w\n";
  ASSERT_EQ(words(list), "x=blocks: " + text + "w=blocks: " + text);
  EXPECT_TRUE(gives(call, list[0], actual));
  EXPECT_TRUE(gives(call, list[1], actual));
}

TEST(Pairing, OfFinerScalesTakesThemAlong) {
  Call call = forward();
  call.replace("w.scales", some_scales({2, 40, 8}, 7));
  const Tensor actual = met_so(call, {0, 2, 1, 3});
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(gives(call, list[2], actual));
  call.replace("w.scales", some_scales({2, 40, 2}, 7));
  const auto coarse = found(call, met_so(call, {0, 2, 1, 3}));
  ASSERT_EQ(coarse.size(), 2u) << "64 of K have one: none can be taken along";
  EXPECT_EQ(coarse[1].name, "x=blocks");
}

TEST(Pairing, OfAGradientIsOfRowsOfEachGroup) {
  const Call call = gradient_call({96, 192}, 6, 40);
  const Tensor actual = met_so(call, {1, 0, 2});
  const auto list = found(call, actual);
  const std::string text =
      "rows 32 to 63 of dy meet rows 0 to 31 of x, rows 0 to 31 of dy meet rows 32 to 63 of x "
      "(rows of each group)";
  ASSERT_EQ(words(list), "dy=blocks: " + text + ", with their scales\ndy=blocks: " + text +
                             ", without their scales\nx=blocks: " + text +
                             ", with their scales\nx=blocks: " + text + ", without their scales\n");
  EXPECT_TRUE(gives(call, list[0], actual));
  EXPECT_FALSE(gives(call, list[1], actual));
  EXPECT_TRUE(gives(call, list[2], actual));
  const Tensor nothing = met_so(call, {1, -1, 2});
  const auto missing = found(call, nothing);
  ASSERT_EQ(missing.size(), 4u);
  EXPECT_TRUE(gives(call, missing[0], nothing));
}

TEST(Pairing, OfAGradientWithOtherEndsHasNoScales) {
  const Call call = gradient_call({80, 160}, 6, 40);
  const auto list = found(call, met_so(call, {1, 0, 2}));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].phrase.ends_with("(rows of each group)")) << list[0].phrase;
}

TEST(Pairing, OfShortGroupsTakesWhatTheyHave) {
  const Call call = gradient_call({32, 32, 128}, 6, 40);
  const Tensor actual = met_so(call, {1, 0, 2}, 2);
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(gives(call, list[0], actual)) << "a group of one block stays";
}

TEST(Pairing, ThatIsRightOrNoneIsNotTold) {
  const Call call = forward();
  EXPECT_EQ(found(call, met_so(call, {0, -1, 2, 3})).size(), 0u) << "nothing moved";
  EXPECT_EQ(found(call, Tensor(Dtype::f32, {9, 40})).size(), 0u);
  Tensor odd = met_so(call, {0, 2, 1, 3});
  for (Index i = 0; i < odd.elements(); ++i) odd.as<float>()[i] += static_cast<float>(i % 11) - 5;
  EXPECT_EQ(found(call, odd).size(), 0u);
  const Call one = forward(32);
  EXPECT_EQ(found(one, Tensor(Dtype::f32, {9, 40})).size(), 0u);
}

TEST(Pairing, IsOfTheGroupWithMostRowsThatFail) {
  const Call call = forward_call({6, 10}, 40, 128);
  // Group 1 fails otherwise, in fewer rows.
  Tensor y = met_so(call, {0, 2, 1, 3}, 0);
  for (Index i = 240; i < 400; ++i) y.as<float>()[i] += static_cast<float>(i % 7) - 3;
  EXPECT_EQ(found(call, y).size(), 4u);
  const Call late = forward_call({4, 10}, 40, 128);
  Tensor last = met_so(late, {0, 2, 1, 3}, 1);
  for (Index i = 0; i < 160; ++i) last.as<float>()[i] += static_cast<float>(i % 7) - 3.5f;
  EXPECT_EQ(found(late, last).size(), 4u);
  Tensor other = met_so(call, {0, 2, 1, 3}, 1);
  for (Index i = 0; i < 240; ++i) other.as<float>()[i] += static_cast<float>(i % 7) - 3;
  EXPECT_EQ(found(call, other).size(), 0u);
}

TEST(Pairing, IsOfTheFirstOfEqualGroups) {
  const Call call = forward_call({6, 12}, 40, 128);
  for (const Index group : {0, 1}) {
    Tensor y = met_so(call, {0, 2, 1, 3}, group);
    for (Index i = 0; i < 240; ++i) {
      y.as<float>()[i + 240 * (1 - group)] += static_cast<float>(i % 7) - 3.5f;
    }
    EXPECT_EQ(found(call, y).size(), group == 0 ? 4u : 0u);
  }
}

TEST(Pairing, LeavesOutRowsWithoutANumber) {
  const Call call = forward_call({4}, 40, 128);
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    y.as<float>()[7] = odd;
    EXPECT_EQ(found(call, y).size(), 4u);
    for (Index r = 0; r < 4; ++r) y.as<float>()[r * 40 + 7] = odd;
    EXPECT_EQ(found(call, y).size(), 0u);
  }
}

TEST(Pairing, CountsLoudRowsAndColumnsAsOthers) {
  Call call = forward_call({6}, 40, 128);
  Tensor scales = call.input("x.scales");
  for (Index s = 0; s < 4; ++s) scales.as<std::uint8_t>()[s] = 160;
  call.replace("x.scales", std::move(scales));
  Tensor of_w = call.input("w.scales");
  for (Index s = 0; s < 4; ++s) of_w.as<std::uint8_t>()[s] = 160;
  call.replace("w.scales", std::move(of_w));
  EXPECT_EQ(words(found(call, met_so(call, {0, 2, 1, 3}))), of_both(kExchanged));
}

TEST(Pairing, HasToGiveEveryColumn) {
  const Call call = forward_call({6}, 40, 128);
  for (const Index column : {0, 17, 39}) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    for (Index r = 0; r < 6; ++r) y.as<float>()[r * 40 + column] += static_cast<float>(40 + r);
    EXPECT_EQ(found(call, y).size(), 0u) << column;
  }
}

TEST(Pairing, IsFoundWhateverTheFactor) {
  const Call call = forward_call({6}, 40, 128);
  Tensor y = met_so(call, {0, 2, 1, 3});
  for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= -3.0f;
  EXPECT_EQ(words(found(call, y)), of_both(kExchanged));
}

TEST(Pairing, IsOfGroupsOfTwoBlocksAndMore) {
  for (const Index end : {0, 1, 32}) {
    const Call call = gradient_call({end, end + 96}, 6, 40);
    Tensor y = met_so(call, {1, 0, 2}, 1);
    for (Index i = 0; i < 240; ++i) y.as<float>()[i] = static_cast<float>(i % 7) - 3.5f;
    EXPECT_GE(found(call, y).size(), 2u) << end;
  }
}

}  // namespace
}  // namespace mxo
