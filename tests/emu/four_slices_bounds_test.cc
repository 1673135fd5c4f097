// A device's bounds of sums of four slices, held by rational numbers (docs/exact_product.md).
#include "emu/exact/four_slices_bounds.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/golden/rational.h"

namespace mxo::four_slices_bounds_test {
namespace {

using twin::Rational;

/// `lows`: lowest slices and those above of one sign, as great as they can be; `lowest`: the
/// former, and half a unit is lost; `rests`: the greatest integers, all with the greatest residual;
/// `carries`: one product, of which half a unit is lost; `third`: nothing above weight 4, which
/// binary32 does not hold with what is left.
enum class Data { normal, lows, lowest, rests, carries, third };
constexpr int kData = 6;

/// A K-vector: slices of its integers, the lowest first, and residuals.
struct KVector {
  std::vector<int> slice[4];
  std::vector<float> rest;
  float low = 0;
  float left = 0;

  KVector(std::size_t k, Data data, bool first, std::mt19937_64& random) {
    for (std::size_t i = 0; i < k; ++i) {
      int of[4] = {};
      float residual = 0;
      const int sign = i / (first ? 2 : 1) % 2 == 0 ? 1 : -1;
      switch (data) {
        case Data::normal: {
          const auto top = static_cast<int>(random() % 4);
          for (int n = 0; n <= top; ++n)
            of[n] = static_cast<int>(random() % (n == 3 ? 254 : 256)) - (n == 3 ? 127 : 128);
          if (random() % 64 == 0) residual = static_cast<float>(random() % 9) * 0.125f - 0.5f;
          break;
        }
        case Data::lows: of[0] = of[1] = -128; break;
        case Data::lowest: of[0] = -128, of[1] = -1; break;
        case Data::rests:
          of[3] = 127 * sign;
          residual = 0.5f * static_cast<float>(i / (first ? 1 : 2) % 2 == 0 ? 1 : -1);
          break;
        case Data::carries: of[1] = first ? 16 : 8; break;
        case Data::third: of[2] = 127, of[1] = static_cast<int>(random() % 256) - 128; break;
      }
      for (int n = 0; n < 4; ++n) slice[n].push_back(of[n]);
      rest.push_back(residual);
      low += static_cast<float>(std::abs(of[0]));
      left += std::fabs(residual);
    }
  }
  Rational element(std::size_t i) const {
    return Rational(0x1p24 * slice[3][i] + 65536.0 * slice[2][i] + 256.0 * slice[1][i] +
                    slice[0][i]) +
           Rational(rest[i]);
  }
  TripleFact fact(bool added) const { return {1, share_of_four_slices(left * 1.001f, low, added)}; }
};

/// Sums of products by weight, 256^w.
std::int32_t sum_of(const KVector& a, const KVector& b, int w) {
  std::int32_t sum = 0;
  for (int n = 0; n < 4; ++n) {
    if (w - n < 0 || w - n > 3) continue;
    for (std::size_t i = 0; i < a.rest.size(); ++i) sum += a.slice[n][i] * b.slice[w - n][i];
  }
  return sum;
}

TEST(FourSlicesBounds, HoldTheRealNumber) {
  std::mt19937_64 random(1);
  double most[2][kData] = {};  // of the interval that is needed, by data
  for (int round = 0; round < 1200; ++round) {
    const auto data = static_cast<Data>(round % kData);
    const std::size_t k = data == Data::carries ? 1 : 1 + random() % 500;
    const KVector a(k, data, true, random), b(k, data, false, random);
    Rational real;
    for (std::size_t i = 0; i < k; ++i) real = real + a.element(i) * b.element(i);
    real = real * Rational(0x1p-32);
    for (const bool added : {false, true}) {
      const std::int32_t w1 = added ? sum_of(a, b, 1) : 0;
      const CarriedSum lower = carry_of_four(sum_of(a, b, 3), sum_of(a, b, 2), w1);
      const TripleEnds ends =
          ends_of_four(static_cast<float>(sum_of(a, b, 6)), static_cast<float>(sum_of(a, b, 5)),
                       static_cast<float>(sum_of(a, b, 4) + lower.carried),
                       static_cast<float>(lower.left), a.fact(added), b.fact(added));
      const twin::Interval interval{ends.low, ends.high};
      ASSERT_TRUE(interval.holds(real)) << round << ", " << added;
      double& of = most[added ? 1 : 0][round % kData];
      while (of < 0.99 && interval.needs(of + 0.01, real)) of += 0.01;
    }
  }
  const auto most_of = [&](bool added, Data data) {
    return most[added ? 1 : 0][static_cast<int>(data)];
  };
  EXPECT_GE(most_of(false, Data::lows), 0.95) << "no data comes near the bound of lowest slices";
  EXPECT_GE(most_of(true, Data::lowest), 0.9) << "no data comes near that of those alone";
  EXPECT_GE(most_of(false, Data::rests), 0.95) << "no data comes near the bound of residuals";
  EXPECT_GE(most_of(true, Data::carries), 0.95) << "no data comes near what carries lose";
}

/// The greatest sums of the longest K-vector are numbers of int32.
TEST(FourSlicesBounds, HoldSumsOfTheLongestLines) {
  constexpr std::int64_t kProducts = (std::int64_t{kMaxFourChunks} * 128) << 14;
  const std::int64_t second = 3 * kProducts + carried(static_cast<std::int32_t>(2 * kProducts));
  const std::int64_t third = 4 * kProducts + carried(static_cast<std::int32_t>(second));
  EXPECT_LT(second + 128, std::int64_t{1} << 31);
  EXPECT_LT(third + 128, std::int64_t{1} << 31);
}

}  // namespace
}  // namespace mxo::four_slices_bounds_test
