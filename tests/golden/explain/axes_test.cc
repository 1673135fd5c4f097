// Axes in another order, whole tensors and tiles, and what is no such order.
#include <gtest/gtest.h>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// Where element i comes from when bit b of its index is bit source[b] of that one.
Index from_bits(Index i, const std::vector<int>& source) {
  Index from = 0;
  for (std::size_t b = 0; b < source.size(); ++b) from |= (i >> b & 1) << source[b];
  return from;
}

/// `given` with the index of every tile of 2^bits elements permuted by its bits.
Tensor by_bits(const Tensor& given, const std::vector<int>& source) {
  const Index unit = Index{1} << source.size();
  return taken(given, [&](Index i) { return i / unit * unit + from_bits(i % unit, source); });
}

std::string sentence_of(Came& came) {
  const std::vector<Claim> claims = recover_axes(came.output);
  return claims.empty() ? "" : claims.front().sentence;
}

TEST(Axes, OfAMatrixAreExchanged) {
  // Written as [16, 8]: the three low bits are the row of [8, 16].
  Came came(counted({8, 16}), by_bits(counted({8, 16}), {4, 5, 6, 0, 1, 2, 3}));
  const Index differing = came.output.differing;
  const std::vector<Claim> claims = recover_axes(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "order.axes");
  EXPECT_EQ(claims[0].sentence, "y: it is written as [8, 16] with its axes in the order 1, 0");
  EXPECT_EQ(claims[0].elements, static_cast<double>(differing));
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(came.output.left, 0);
}

TEST(Axes, ThatStayTogetherAreOne) {
  Came three(counted({512}), by_bits(counted({512}), {0, 1, 7, 8, 2, 3, 4, 5, 6}));
  EXPECT_EQ(sentence_of(three),
            "y: it is written as [4, 32, 4] with its axes in the order 1, 0, 2");
  Came round(counted({512}), by_bits(counted({512}), {7, 8, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(sentence_of(round), "y: it is written as [4, 128] with its axes in the order 1, 0");
  Came reversed(counted({64}), by_bits(counted({64}), {5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(sentence_of(reversed),
            "y: it is written as [2, 2, 2, 2, 2, 2] with its axes in the order 5, 4, 3, 2, 1, 0");
}

TEST(Axes, OfTilesAreExchangedInEach) {
  const Tensor given = counted({6, 256});
  Tensor actual = by_bits(given, {2, 3, 4, 5, 6, 7, 8, 0, 1});
  std::copy_n(given.as<std::int32_t>(), 512, actual.as<std::int32_t>());
  Came came(given, std::move(actual));
  const std::vector<Claim> claims = recover_axes(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence,
            "tiles of 512 are written as [128, 4] with its axes in the order 1, 0, in rows 2 to 5 "
            "of y");
  EXPECT_EQ(claims[0].where.rows, "2-5");
  EXPECT_EQ(came.output.left, 0);
}

TEST(Axes, OfTilesAreTheSameInAll) {
  const Tensor given = counted({1536});
  Tensor actual = by_bits(given, {2, 3, 4, 5, 6, 7, 8, 0, 1});
  const Tensor other = by_bits(given, {0, 1, 3, 2, 4, 5, 6, 7, 8});
  std::copy_n(other.as<std::int32_t>() + 1024, 512, actual.as<std::int32_t>() + 1024);
  Came came(given, std::move(actual));
  EXPECT_EQ(sentence_of(came), "");
  EXPECT_GT(came.output.left, 0);
}

TEST(Axes, NotToldApartKeepTheirPlace) {
  // Four neighbours are alike: their two bits might have changed places.
  const auto fours = filled<std::int32_t>(Dtype::i32, {128}, [](Index i) { return i / 4; });
  Came came(fours, by_bits(fours, {0, 1, 5, 6, 2, 3, 4}));
  EXPECT_EQ(sentence_of(came), "y: it is written as [4, 8, 4] with its axes in the order 1, 0, 2");
}

TEST(Axes, AreFoundBehindOnesThatFitAtFirst) {
  // Elements 1 and 2 are alike: bits 0 and 1 fit in their own places until others are looked at.
  const auto given = filled<std::int32_t>(Dtype::i32, {64}, [](Index i) { return i == 2 ? 1 : i; });
  Came came(given, by_bits(given, {1, 0, 2, 3, 4, 5}));
  EXPECT_EQ(sentence_of(came), "y: it is written as [16, 2, 2] with its axes in the order 0, 2, 1");
}

TEST(Axes, NeedSixteenElementsThatDiffer) {
  Came sixteen(counted({32}), by_bits(counted({32}), {0, 1, 2, 4, 3}));
  ASSERT_EQ(sixteen.output.differing, 16);
  EXPECT_EQ(sentence_of(sixteen),
            "y: it is written as [2, 2, 8] with its axes in the order 1, 0, 2");
  const auto like_two = [](Index i) { return i == 8 || i == 16 ? 8 : i; };
  const auto given = filled<std::int32_t>(Dtype::i32, {32}, like_two);
  Came fewer(given, by_bits(given, {0, 1, 2, 4, 3}));
  ASSERT_EQ(fewer.output.differing, 14);
  EXPECT_EQ(sentence_of(fewer), "");
}

TEST(Axes, AreNotLookedForWhereSomethingIsExplained) {
  Came came(counted({128}), by_bits(counted({128}), {4, 5, 6, 0, 1, 2, 3}));
  came.output.settle(1);
  EXPECT_EQ(sentence_of(came), "");
}

TEST(Axes, AreOfPowersOfTwoOrWholeTiles) {
  const Tensor given = counted({768});
  Tensor actual = by_bits(given, {7, 0, 1, 2, 3, 4, 5, 6});
  std::copy_n(given.as<std::int32_t>() + 256, 512, actual.as<std::int32_t>() + 256);
  Came came(given, std::move(actual));
  EXPECT_EQ(sentence_of(came), "") << "768 are no power of two, and no tiles of 512";
}

TEST(Axes, LeaveTheFirstElementInItsPlace) {
  Tensor actual = by_bits(counted({128}), {4, 5, 6, 0, 1, 2, 3});
  actual.as<std::int32_t>()[0] = -1;
  Came first(counted({128}), actual);
  EXPECT_EQ(sentence_of(first), "");
  actual.as<std::int32_t>()[0] = 0;
  actual.as<std::int32_t>()[127] = -1;
  Came last(counted({128}), actual);
  EXPECT_EQ(sentence_of(last), "");
  EXPECT_EQ(last.output.left, last.output.differing);
}

TEST(Axes, AreEachTakenOnce) {
  Came came(counted({128}), by_bits(counted({128}), {0, 0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(sentence_of(came), "");
}

TEST(Axes, AreLookedForInAMillionElements) {
  const std::vector<int> order{1,  0,  2,  3,  4,  5,  6,  7,  8,  9,
                               10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  const Tensor given = counted({1 << 20});
  Came most(given, by_bits(given, order));
  EXPECT_NE(sentence_of(most), "");
  const Tensor larger = counted({3 << 19});
  Came too_many(larger, by_bits(larger, {1, 0, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(sentence_of(too_many), "");
}

TEST(Axes, AreGivenUpAfterAMillionTrials) {
  // All but the last four of a tile's elements are alike in pairs, so that the bits 0 and 1 fit in
  // their own places to the end of 2047 tiles.
  const auto paired = [](Index i) { return i % 4 == 2 && i % 512 < 508 ? i - 1 : i; };
  const auto tiles = [&](Index n) {
    const auto given = filled<std::int32_t>(Dtype::i32, {512 * n}, paired);
    Came came(given, by_bits(given, {1, 0, 2, 3, 4, 5, 6, 7, 8}));
    return sentence_of(came).substr(0, 35);
  };
  EXPECT_EQ(tiles(99), "tiles of 512 are written as [128, 2");
  EXPECT_EQ(tiles(2047), "");
}

TEST(Axes, ThatFitInManyWaysAreGivenUp) {
  // The lower half is alike throughout, and no order gives the upper one.
  const auto value = [](Index i) { return i < 2048 ? 0 : i; };
  const auto given = filled<std::int32_t>(Dtype::i32, {4096}, value);
  const auto actual =
      filled<std::int32_t>(Dtype::i32, {4096}, [&](Index i) { return i == 4095 ? 0 : value(i); });
  Came came(given, taken(actual, [](Index i) { return i < 2048 ? i : 4095 - (i - 2048); }));
  EXPECT_EQ(sentence_of(came), "");
}

}  // namespace
}  // namespace mxo
