// A device's bounds of sums of two slices, held by rational numbers (docs/exact_product.md).
#include "emu/exact/two_slices_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/golden/rational.h"

namespace mxo::two_slices_bounds_test {
namespace {

using twin::Rational;

/// A K-vector of codes: integers of four significant bits, some with a residual of four bits.
struct KVector {
  std::vector<int> v;
  std::vector<float> r;
  double left = 0;  ///< of residuals' magnitudes
  int high(std::size_t i) const { return (v[i] + 128) >> 8; }
  int low(std::size_t i) const { return v[i] - 256 * high(i); }
};

enum class Data { normal, one_sign, against };

/// `against`: every low slice is -128, and residuals all have one sign.
KVector drawn(std::size_t k, std::size_t residuals, Data data, std::mt19937_64& random) {
  KVector x{std::vector<int>(k), std::vector<float>(k, 0.0f)};
  for (int& v : x.v) {
    const auto significand = static_cast<int>(8 + random() % 8);
    v = data == Data::against ? 128 + 256 * static_cast<int>(random() % 4)
                              : significand << random() % 12;
    if (data == Data::normal && random() % 2 == 0) v = -v;
  }
  if (data != Data::against) x.v[0] = 8 << 11;  // the greatest bit of a K-vector is at place 14
  for (std::size_t n = 0; n < residuals; ++n) {
    const std::size_t i = random() % k;
    if (i == 0 || x.r[i] != 0) continue;
    x.v[i] = static_cast<int>(random() % 4);
    x.r[i] = static_cast<float>(1 + random() % 8) / 16;
    if (data == Data::normal && random() % 2 == 0) x.r[i] = -x.r[i];
    x.left += std::fabs(x.r[i]);
  }
  return x;
}

Rational element(const KVector& x, std::size_t i) { return Rational(x.v[i]) + Rational(x.r[i]); }

float in_f16(float value) { return decode(encode<kF16>(value)); }

/// r_a . h_b as the device adds it, kept in f16.
float of_high_slices(const KVector& a, const KVector& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.r.size(); ++i)
    if (a.r[i] != 0) sum = std::fma(a.r[i], static_cast<float>(b.high(i)), sum);
  return in_f16(sum);
}

FactorAndRest fact_of(const KVector& x, float factor) {
  return {factor, share_of_high_slices(static_cast<float>(x.left),
                                       static_cast<int>((x.v.size() + 127) / 128))};
}

TEST(TwoSlicesBounds, HoldTheRealNumberIntoBf16) {
  std::mt19937_64 random(1);
  double nearest = 0;
  for (int round = 0; round < 600; ++round) {
    const Data data = round % 3 == 0   ? Data::normal
                      : round % 3 == 1 ? Data::one_sign
                                       : Data::against;
    const std::size_t k = round % 5 == 0 ? 7168 : 1 + random() % 700;
    const KVector a = drawn(k, random() % 61, data, random);
    const KVector b = drawn(k, round % 7 == 0 ? 0 : random() % 61, data, random);
    std::int64_t w2 = 0, w1 = 0, w0 = 0;
    Rational real;
    for (std::size_t i = 0; i < k; ++i) {
      w2 += a.high(i) * b.high(i);
      w1 += a.high(i) * b.low(i) + a.low(i) * b.high(i);
      w0 += a.low(i) * b.low(i);
      real = real + element(a, i) * element(b, i);
    }
    const float correction = in_f16(of_high_slices(a, b) + of_high_slices(b, a));
    const auto factor = [&] {
      const auto exponent = static_cast<int>(random() % 80) - 59;
      return std::ldexp(1 + static_cast<float>(random() % 8388608) * 0x1p-23f, exponent);
    };
    const FactorAndRest of_a = fact_of(a, factor());
    const FactorAndRest of_b = fact_of(b, factor());
    const IntervalEnds ends = ends_of_slices(static_cast<float>(w2), static_cast<float>(w1),
                                             static_cast<float>(w0), correction, of_a, of_b);
    real = real * Rational(of_a.factor) * Rational(of_b.factor);
    const twin::Interval interval{ends.low, ends.high};
    ASSERT_TRUE(interval.holds(real)) << round;
    if (interval.needs(0.7, real)) nearest = 0.7;
  }
  EXPECT_EQ(nearest, 0.7) << "no data comes near the bound";
}

/// Sums of slices that cancel each other, or of which one is alone: what remains is all rounding.
TEST(TwoSlicesBounds, HoldPartsThatCancel) {
  std::mt19937_64 random(4);
  const auto below = [&](int bits) {
    const auto n = static_cast<std::int64_t>(random() % (std::uint64_t{1} << bits));
    return random() % 2 == 0 ? n : -n;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::int64_t w2 = round % 3 == 0 ? 0 : below(23);
    const std::int64_t w1 = round % 3 == 0 ? 0 : below(7) - 256 * w2;
    const std::int64_t w0 = round % 2 == 0 ? below(28) : -256 * w1;
    if (std::abs(w0) >= std::int64_t{1} << 30) continue;
    const float c = round % 5 == 0 ? in_f16(static_cast<float>(below(12)) * 0.25f) : 0.0f;
    const auto chunks = static_cast<int>((std::abs(w0) >> 21) + 1);
    const FactorAndRest fact{1, share_of_high_slices(0, chunks)};
    const IntervalEnds ends = ends_of_slices(static_cast<float>(w2), static_cast<float>(w1),
                                             static_cast<float>(w0), c, fact, fact);
    const auto whole = static_cast<double>(65536 * w2 + 256 * w1 + w0);  // below 2^53
    const Rational real = Rational(whole) + Rational(256 * c);
    ASSERT_TRUE((twin::Interval{ends.low, ends.high}.holds(real)))
        << w2 << " " << w1 << " " << w0 << " " << c;
  }
}

TEST(TwoSlicesBounds, HoldRunsThatAreAddedInBinary64) {
  std::mt19937_64 random(2);
  bool rounds = false;
  for (int round = 0; round < 300; ++round) {
    const int runs = static_cast<int>(1 + random() % 56);
    double sum = 0;
    Rational real, norm_a, norm_b;
    for (int run = 0; run < runs; ++run) {
      const auto scale = [&] {
        const int exponent = round % 4 == 0 ? 0 : static_cast<int>(random() % 60) - 30;
        return std::ldexp(1 + static_cast<float>(random() % 8388608) * 0x1p-23f, exponent);
      };
      const double sa = static_cast<double>(scale()), sb = static_cast<double>(scale());
      const KVector a = drawn(128, 0, round % 2 == 0 ? Data::normal : Data::one_sign, random);
      const KVector b = round % 4 == 0 ? a : drawn(128, 0, Data::one_sign, random);
      std::int64_t upper = 0, lower = 0;
      double squares_a = 0x1p22, squares_b = 0x1p22;  // integers: exact
      for (std::size_t i = 0; i < 128; ++i) {
        upper += 256 * a.high(i) * b.high(i) + a.high(i) * b.low(i) + a.low(i) * b.high(i);
        lower += a.low(i) * b.low(i);
        squares_a += static_cast<double>(a.v[i]) * a.v[i];
        squares_b += static_cast<double>(b.v[i]) * b.v[i];
      }
      ASSERT_LT(std::abs(upper), std::int64_t{1} << 31);
      const double scales = sa * sb;  // 48 bits
      sum = std::fma(static_cast<double>(upper), 256 * scales, sum);
      sum = std::fma(static_cast<double>(lower), scales, sum);
      real = real + Rational(static_cast<double>(256 * upper + lower)) * Rational(scales);
      norm_a = norm_a + Rational(squares_a) * Rational(sa) * Rational(sa);
      norm_b = norm_b + Rational(squares_b) * Rational(sb) * Rational(sb);
    }
    // Compared as squares, so that no root is rounded; two of the roundings are the correction's
    // and two raise the bound.
    const Rational off = (real - Rational(sum)).magnitude();
    const Rational step(static_cast<double>(roundings_of_runs(runs)) - 4 * 0x1p-53);
    ASSERT_TRUE(off * off <= step * step * norm_a * norm_b) << round;
    const Rational one(0x1p-53);
    rounds = rounds || one * one * norm_a * norm_b < off * off;
  }
  EXPECT_TRUE(rounds) << "no data needs more than one rounding";
}

TEST(TwoSlicesBounds, HoldCorrectionsOfScaledRuns) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t k = 128 * (1 + random() % 8);
    const Data data = round % 2 == 0 ? Data::normal : Data::one_sign;
    const KVector a = drawn(k, 1 + random() % 60, data, random);
    const KVector b = drawn(k, random() % 61, data, random);
    std::vector<float> sa(k / 128), sb(k / 128);
    for (std::vector<float>* scales : {&sa, &sb}) {
      for (float& s : *scales)
        s = std::ldexp(1 + static_cast<float>(random() % 8388608) * 0x1p-23f,
                       static_cast<int>(random() % 60) - 30);
    }
    Rational real;
    const auto sum_of = [&](const KVector& own, const std::vector<float>& s, const KVector& other,
                            const std::vector<float>& t, ScaledResiduals& of) {
      float sum = 0;
      double left = 0;
      int greatest = 0;
      for (std::size_t i = 0; i < k; ++i) {
        greatest = std::max(greatest, std::abs(own.v[i]));
        if (own.r[i] == 0) continue;
        ++of.count;
        left += std::fabs(static_cast<double>(own.r[i]) * static_cast<double>(s[i / 128]));
        sum += own.r[i] * s[i / 128] * (static_cast<float>(other.v[i]) * t[i / 128]);
        real = real + Rational(own.r[i]) * Rational(s[i / 128]) * Rational(other.v[i]) *
                          Rational(t[i / 128]);
      }
      of.left = std::nextafter(static_cast<float>(left), INFINITY);
      of.peak = static_cast<float>(greatest) * *std::max_element(s.begin(), s.end()) * 1.001f;
      return sum;
    };
    ScaledResiduals of_a{}, of_b{};
    const float first = sum_of(a, sa, b, sb, of_a);
    const float correction = first + sum_of(b, sb, a, sa, of_b);
    // Those at one place: left out into bf16, added in any order into f32.
    float added = correction;
    for (std::size_t i = 0; i < k; ++i) {
      if (a.r[i] == 0 || b.r[i] == 0) continue;
      added += a.r[i] * sa[i / 128] * (b.r[i] * sb[i / 128]);
      real = real +
             Rational(a.r[i]) * Rational(sa[i / 128]) * Rational(b.r[i]) * Rational(sb[i / 128]);
    }
    const auto within = [&](float found, bool adds) {
      const Rational off(off_of_corrections(of_a, of_b, adds));
      return (real - Rational(found)).magnitude() <= off;
    };
    EXPECT_TRUE(within(added, true)) << round;
    EXPECT_TRUE(within(correction, false)) << round;
  }
}

}  // namespace
}  // namespace mxo::two_slices_bounds_test
