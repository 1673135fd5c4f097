// Blocks of one side that met other blocks of the other along the depth.
#include <gtest/gtest.h>

#include <string>

#include "tests/golden/met_blocks.h"

namespace mxo {
namespace {

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

TEST(Pairing, OfRolledBlocksTakesEachFromItsSource) {
  const Call call = forward();
  const Tensor actual = met_so(call, {1, 2, 3, 0});
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(gives(call, list[0], actual));
  EXPECT_TRUE(gives(call, list[2], actual));
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

TEST(Pairing, OfAShortLastBlockIsFound) {
  const Call call = forward(112);
  const Tensor actual = met_so(call, {3, 1, 2, 0});
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  const auto* was = call.input("x.codes").as<std::uint8_t>();
  const auto* is = altered.input("x.codes").as<std::uint8_t>();
  for (Index r = 0; r < 9; ++r) {
    for (Index d = 0; d < 16; ++d) {
      EXPECT_EQ(is[r * 112 + d], was[r * 112 + 96 + d]);
      EXPECT_EQ(is[r * 112 + 96 + d], was[r * 112 + d]);
      EXPECT_EQ(is[r * 112 + 16 + d], was[r * 112 + 16 + d]);
    }
  }
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

TEST(Pairing, OfOneScaleForTheDepthIsOfCodes) {
  Call call = forward();
  call.replace("x.scales", some_scales({9, 1}, 7));
  const auto list = found(call, met_so(call, {0, 2, 1, 3}));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].name + ": " + list[0].phrase, std::string("x=blocks: ") + kExchanged);
  EXPECT_EQ(list[1].name, "w=blocks");
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

TEST(Pairing, OfAGradientIsNoneOfOneWithoutRows) {
  const Call call = gradient_call({96, 192}, 6, 40);
  const auto list = found(call, met_so(call, {1, 0, 2}));
  ASSERT_EQ(list.size(), 4u);
  Call empty = gradient_call({0, 0}, 6, 40);
  for (const Hypothesis& h : list) EXPECT_FALSE(h.alter(empty));
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

TEST(Pairing, OfAGradientThatMeetsNothingIsZero) {
  const Call call = gradient_call({96, 160}, 6, 40);
  const Tensor actual = met_so(call, {2, 1, -1}, 0);
  const auto list = found(call, actual);
  ASSERT_EQ(list.size(), 4u);
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  const auto* was = call.input("dy.codes").as<std::uint8_t>();
  const auto* is = altered.input("dy.codes").as<std::uint8_t>();
  for (Index i = 0; i < 160 * 6; ++i) {
    const Index row = i / 6;
    const int wanted = row < 32 ? was[i + 64 * 6] : row >= 64 && row < 96 ? 0 : was[i];
    EXPECT_EQ(is[i], wanted) << "the second group has two blocks";
  }
}

}  // namespace
}  // namespace mxo
