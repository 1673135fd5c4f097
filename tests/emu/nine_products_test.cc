// The sum of all nine products of three slices and its rounding, held by rational numbers
// (docs/exact_product.md).
#include "emu/exact/nine_products.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/golden/rational.h"

namespace mxo::nine_products_test {
namespace {

using twin::Rational;

/// A K-vector of elements of eight bits: slices of its integers, and residuals.
struct KVector {
  std::vector<float> element;
  std::vector<int> slice[3];
  std::vector<float> rest;
  std::int32_t rests = 0;

  KVector(std::size_t k, std::mt19937_64& random) {
    const auto share = random() % 3;  // none, few, all may have residuals
    for (std::size_t i = 0; i < k; ++i) {
      const bool small = share == 2 || (share == 1 && random() % 16 == 0);
      const auto significand = static_cast<int>(random() % 509) - 254;
      const auto place = static_cast<int>(random() % 16);  // products often end in a half
      element.push_back(std::ldexp(static_cast<float>(significand), small ? place - 15 : place));
      const auto integer = static_cast<int>(std::rint(element.back()));
      for (int n = 0; n < 3; ++n) slice[n].push_back(((integer + 0x808080) >> 8 * n & 0xFF) - 128);
      rest.push_back(element.back() - static_cast<float>(integer));
      rests += rest.back() != 0 ? 1 : 0;
    }
  }
};

std::int32_t products(const KVector& a, int of_a, const KVector& b, int of_b) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < a.rest.size(); ++i) sum += a.slice[of_a][i] * b.slice[of_b][i];
  return sum;
}

TEST(NineProducts, HoldTheRealNumber) {
  std::mt19937_64 random(1);
  double most = 0;  // of the bound that is needed
  int exact_with_rests = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t k = 1 + random() % (round % 2 == 0 ? 3 : 120);
    const KVector a(k, random), b(k, random);
    Rational real;
    std::int32_t added = 0;
    bool exact = true;
    const auto add = [&](float rest, float element) {
      if (rest == 0) return;
      const std::int32_t product = rest_product(rest, element);
      added += product & ~1;
      exact = exact && (product & 1) == 0;
    };
    for (std::size_t i = 0; i < k; ++i) {
      real = real + Rational(double{a.element[i]}) * Rational(double{b.element[i]});
      add(a.rest[i], b.element[i]);
      add(b.rest[i], a.element[i]);
    }
    const LowerSum lower =
        lower_sum(products(a, 0, b, 1) + products(a, 1, b, 0), products(a, 0, b, 0), added);
    const std::int64_t sum = whole_sum(
        products(a, 2, b, 2), products(a, 2, b, 1) + products(a, 1, b, 2),
        products(a, 2, b, 0) + products(a, 1, b, 1) + products(a, 0, b, 2) + lower.carried,
        lower.left);
    const std::int64_t off = off_of_rests(exact, a.rests, b.rests);
    const Rational apart = (real - Rational(static_cast<double>(sum))).magnitude();
    exact_with_rests += exact && a.rests + b.rests > 0 ? 1 : 0;
    ASSERT_TRUE(apart <= Rational(static_cast<double>(off))) << round;
    while (off > 0 && Rational(static_cast<double>(off) * (most + 0.01)) < apart) most += 0.01;
  }
  EXPECT_GE(most, 0.45) << "no data comes near the bound";
  EXPECT_GE(exact_with_rests, 20);
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
      {kTie, 0, -44, true, 1.0f},      {kTie, 1, -44, false, 0.0f},
      {kTie + 1, 1, -44, false, 0.0f}, {kTie + 2, 1, -44, true, 0x1.000002p0f},
      {kTie - 1, 1, -44, true, 1.0f},  {0, 0, -200, true, 0.0f},
      {1, 1, -44, false, 0.0f},        {-3, 0, 2, true, -12.0f},
      {1, 0, -126, true, 0x1p-126f},   {1, 0, -127, false, 0.0f},
      {-3, 0, 126, true, -0x1.8p127f}, {-3, 0, 127, false, 0.0f},
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
  constexpr std::int64_t kRests = 2 * 2 * kMostRests * (std::int64_t{1} << 22);
  static_assert(2 * kElements * kProduct < kInt32 && kRests < kInt32);
  const LowerSum most =
      lower_sum(static_cast<std::int32_t>(2 * kElements * kProduct),
                static_cast<std::int32_t>(kElements * kProduct), static_cast<std::int32_t>(kRests));
  EXPECT_LT(3 * kElements * kProduct + most.carried, kInt32);
}

}  // namespace
}  // namespace mxo::nine_products_test
