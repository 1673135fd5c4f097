// A device's bounds of sums of three slices, held by rational numbers (docs/exact_product.md).
#include "emu/exact/three_slices_bounds.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/golden/rational.h"

namespace mxo::three_slices_bounds_test {
namespace {

using twin::Rational;

/// `against`: lowest and middle slices of one sign, as great as they can be; `alone`: nothing but
/// those; `full`: the greatest integers, all with the greatest residual.
enum class Data { normal, against, alone, full };

/// A K-vector: integers of 256 m + l below 65536 h, and residuals.
struct KVector {
  std::vector<int> high, middle, low;
  std::vector<float> rest;
  int low_sum = 0;
  float left = 0;

  KVector(std::size_t k, Data data, bool first, std::mt19937_64& random) {
    const auto lows = random() % 3;  // none, few, all
    const auto below = [&](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(2 * n + 1)) - n;
    };
    for (std::size_t i = 0; i < k; ++i) {
      const bool lowest = lows == 2 || (lows == 1 && random() % 16 == 0);
      const bool normal = data == Data::normal;
      const bool full = data == Data::full;
      const bool odd = data == Data::alone && k % 2 != 0;  // what is carried is rounded
      // Of both the products cancel, those with residuals do not.
      const int sign = i / (first ? 2 : 1) % 2 == 0 ? 1 : -1;
      const int other = i / (first ? 1 : 2) % 2 == 0 ? 1 : -1;
      high.push_back(normal ? below(127) : full ? 127 * sign : data == Data::against ? 1 : 0);
      middle.push_back(normal ? below(128) : full ? 127 * sign : odd ? -127 : -128);
      low.push_back(!lowest || full ? 0
                    : normal        ? below(128)
                    : odd           ? -static_cast<int>(1 + random() % 128)
                                    : -128);
      rest.push_back(full                 ? 0.5f * static_cast<float>(other)
                     : random() % 64 != 0 ? 0.0f
                     : normal             ? static_cast<float>(below(8)) * 0.0625f
                                          : -0.5f);
      low_sum += std::abs(low.back());
      left += std::fabs(rest.back());
    }
  }
  Rational element(std::size_t i) const {
    return Rational(65536.0 * high[i] + 256.0 * middle[i] + low[i]) + Rational(rest[i]);
  }
  TripleFact fact(bool added) const {
    const auto chunks = static_cast<int>((high.size() + 127) / 128);
    return {1, share_of_residuals(left * 1.001f, chunks) +
                   share_of_lows(static_cast<float>(low_sum), added)};
  }
};

TEST(ThreeSlicesBounds, HoldTheRealNumber) {
  std::mt19937_64 random(1);
  double most[2] =
      {};  // of the interval that is needed, without the next weight's products and with
  for (int round = 0; round < 900; ++round) {
    const auto data = static_cast<Data>(round % 4);
    const std::size_t k = 1 + random() % 500;
    const KVector a(k, data, true, random), b(k, data, false, random);
    std::int64_t w2 = 0, w1 = 0, w0 = 0, of_a = 0, of_b = 0;
    Rational real;
    for (std::size_t i = 0; i < k; ++i) {
      w2 += a.high[i] * b.high[i];
      w1 += a.high[i] * b.middle[i] + a.middle[i] * b.high[i];
      w0 += a.middle[i] * b.middle[i] + a.high[i] * b.low[i] + a.low[i] * b.high[i];
      of_a += a.low[i] * b.middle[i];
      of_b += a.middle[i] * b.low[i];
      real = real + a.element(i) * b.element(i);
    }
    real = real * Rational(0x1p-16);
    for (int added = 0; added < 4; ++added) {
      const std::int64_t next = (added % 2 != 0 ? of_a : 0) + (added / 2 != 0 ? of_b : 0);
      const std::int64_t all = w0 + carried(static_cast<std::int32_t>(next));
      const TripleFact fact_a = a.fact(added % 2 != 0), fact_b = b.fact(added / 2 != 0);
      const TripleEnds ends = ends_of_triple(static_cast<float>(w2), static_cast<float>(w1),
                                             static_cast<float>(all), fact_a, fact_b);
      const twin::Interval interval{ends.low, ends.high};
      ASSERT_TRUE(interval.holds(real)) << round << ", " << added;
      // What lists add.
      float listed = 0;
      for (std::size_t i = 0; i < k; ++i) {
        const auto add = [&](const KVector& of, const KVector& other, bool side) {
          listed += side ? 256 * of.rest[i] * static_cast<float>(other.high[i])
                         : static_cast<float>(of.low[i] * other.middle[i]);
        };
        add(a, b, added % 2 != 0);
        add(b, a, added / 2 != 0);
      }
      const Rational sum = Rational(static_cast<double>(w2 * 65536 + w1 * 256 + all)) +
                           Rational(static_cast<double>(listed) * 0x1p-8);
      const double off = off_of_lists(a.low_sum, b.low_sum, a.left, added % 2 != 0, b.left,
                                      added / 2 != 0, added != 0);
      ASSERT_TRUE((real - sum).magnitude() <= Rational(off * 0x1p-16)) << round << ", " << added;
      double& of = most[added == 3 ? 1 : 0];
      while (of < 0.9 && interval.needs(of + 0.1, real)) of += 0.1;
    }
  }
  EXPECT_GE(most[0], 0.8) << "no data comes near the bound of lowest slices";
  EXPECT_GE(most[1], 0.5) << "no data comes near the bound where their products are added";
}

/// The greatest sums of the longest K-vector are numbers of int32.
TEST(ThreeSlicesBounds, HoldSumsOfTheLongestLines) {
  constexpr std::int64_t kElements = std::int64_t{kMaxTripleChunks} * 128;
  constexpr std::int64_t kNext = 2 * kElements << 14;
  static_assert(kNext + 128 < std::int64_t{1} << 31);
  EXPECT_LT((3 * kElements << 14) + carried(static_cast<std::int32_t>(kNext)),
            std::int64_t{1} << 31);
}

}  // namespace
}  // namespace mxo::three_slices_bounds_test
