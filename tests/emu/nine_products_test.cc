// The sum of all nine products of three slices and its rounding, held by rational numbers
// (docs/exact_product.md).
#include "emu/exact/nine_products.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/golden/rational.h"

namespace mxo {
namespace {

using twin::Rational;

/// A K-vector of integers of three slices, and residuals of as many bits as their places leave.
struct KVector {
  std::vector<int> slice[3];
  std::vector<float> rest;
  std::int32_t rests = 0;

  KVector(std::size_t k, std::mt19937_64& random) {
    const auto share = random() % 3;  // none, few, all with residuals
    for (std::size_t i = 0; i < k; ++i) {
      const bool left = share == 2 || (share == 1 && random() % 16 == 0);
      const auto bits = static_cast<int>(random() % 256) - 128;
      slice[2].push_back(left ? 0 : static_cast<int>(random() % 255) - 127);
      slice[1].push_back(left ? 0 : static_cast<int>(random() % 256) - 128);
      slice[0].push_back(left && bits % 4 != 0 ? 0 : bits);
      // In the other K-vector's quanta most products end in a half.
      const bool half = random() % 2 == 0;
      rest.push_back(!left ? 0 : half ? 0.5f : static_cast<float>(bits) * 0x1p-8f);
      if (rest.back() != 0) ++rests;
    }
  }
  int integer(std::size_t i) const { return 65536 * slice[2][i] + 256 * slice[1][i] + slice[0][i]; }
  float element(std::size_t i) const { return static_cast<float>(integer(i)) + rest[i]; }
};

std::int32_t products(const KVector& a, int of_a, const KVector& b, int of_b) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < a.rest.size(); ++i) sum += a.slice[of_a][i] * b.slice[of_b][i];
  return sum;
}

TEST(NineProducts, HoldTheRealNumber) {
  std::mt19937_64 random(1);
  double most = 0;  // of the bound that is needed
  for (int round = 0; round < 2000; ++round) {
    const std::size_t k = 1 + random() % (round % 2 == 0 ? 3 : 120);
    const KVector a(k, random), b(k, random);
    Rational real;
    std::int32_t added = 0;
    for (std::size_t i = 0; i < k; ++i) {
      real = real + Rational(double{a.element(i)}) * Rational(double{b.element(i)});
      if (a.rest[i] != 0) added += rest_product(a.rest[i], b.element(i));
      if (b.rest[i] != 0) added += rest_product(b.rest[i], a.element(i));
    }
    const LowerSum lower =
        lower_sum(products(a, 0, b, 1) + products(a, 1, b, 0), products(a, 0, b, 0), added);
    const std::int64_t sum = whole_sum(
        products(a, 2, b, 2), products(a, 2, b, 1) + products(a, 1, b, 2),
        products(a, 2, b, 0) + products(a, 1, b, 1) + products(a, 0, b, 2) + lower.carried,
        lower.left);
    const std::int64_t off = off_of_rests(a.rests, b.rests);
    const Rational apart = (real - Rational(static_cast<double>(sum))).magnitude();
    ASSERT_TRUE(apart <= Rational(static_cast<double>(off))) << round;
    while (off > 0 && Rational(static_cast<double>(off) * (most + 0.01)) < apart) most += 0.01;
  }
  EXPECT_GE(most, 0.5) << "no data comes near the bound";
}

/// Sums about the middle between two neighbours, by the interval's width.
TEST(NineProducts, RoundWhatHasOneRounding) {
  constexpr std::int64_t kTie = (std::int64_t{1} << 44) + (std::int64_t{1} << 20);
  const struct {
    std::int64_t sum, off;
    int exponent;
    bool passed;
    float value;
  } rows[] = {
      {kTie, 0, -44, true, 1.0f},
      {kTie, 1, -44, false, 0.0f},
      {kTie + 1, 1, -44, false, 0.0f},
      {kTie + 2, 1, -44, true, 0x1.000002p0f},
      {kTie - 1, 1, -44, true, 1.0f},
      {0, 0, -200, true, 0.0f},
      {1, 1, -44, false, 0.0f},
      {-3, 0, 2, true, -12.0f},
      {1, 0, -126, true, 0x1p-126f},
      {1, 0, -127, false, 0.0f},
      {-3, 0, 126, true, -0x1.8p127f},
      {-3, 0, 127, false, 0.0f},
  };
  for (const auto& row : rows) {
    const RoundingTest is = round_whole(row.sum, row.off, row.exponent);
    EXPECT_EQ(is.passed, row.passed) << row.sum << ", " << row.exponent;
    if (!row.passed) continue;
    EXPECT_EQ(is.bits, bit_cast<std::uint32_t>(row.value)) << row.sum;
  }
}

/// The greatest sums of the longest K-vectors, with as many residuals as are added.
TEST(NineProducts, FitSumsOfTheLongestLines) {
  constexpr std::int64_t kElements = std::int64_t{kMaxTripleChunks} * 128;
  constexpr std::int64_t kInt32 = std::int64_t{1} << 31;
  constexpr std::int64_t kProduct = std::int64_t{1} << 14;
  constexpr std::int64_t kRests = 2 * kMostRests * (std::int64_t{1} << 22);
  static_assert(2 * kElements * kProduct < kInt32 && kRests < kInt32);
  const LowerSum most =
      lower_sum(static_cast<std::int32_t>(2 * kElements * kProduct),
                static_cast<std::int32_t>(kElements * kProduct), static_cast<std::int32_t>(kRests));
  EXPECT_LT(3 * kElements * kProduct + most.carried, kInt32);
}

}  // namespace
}  // namespace mxo
