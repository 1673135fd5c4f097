// The bounds of sums in the CPU's engines, held by rational numbers (docs/exact_product.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "emu/exact/binary32_bounds.h"
#include "emu/exact/integer_unit.h"
#include "emu/exact/rounding_test.h"
#include "tests/golden/rational.h"

namespace mxo::cpu::cpu_bounds_test {
namespace {

using twin::Rational;

using Random = std::mt19937_64;

int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}
double signed_by(Random& random, double v) { return random() % 2 == 0 ? v : -v; }

/// Numbers of `bits` significant bits, whose exponents spread.
std::vector<double> numbers(Random& random, int k, int bits, int spread, bool one_sign) {
  std::vector<double> x(static_cast<std::size_t>(k));
  for (double& v : x) {
    const int significand = (1 << (bits - 1)) + below(random, 1 << (bits - 1));
    v = std::ldexp(significand, -below(random, spread) - bits);
    if (!one_sign) v = signed_by(random, v);
  }
  return x;
}

Rational dot(const std::vector<double>& a, const std::vector<double>& b) {
  Rational sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum = sum + Rational(a[i]) * Rational(b[i]);
  return sum;
}

/// At least the norm.
double norm_of(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)) * (1 + 0x1p-40);
}

/// Whether |real - found| is at most `off`; `most` is the greatest share of it that was needed.
bool within(const Rational& real, const Rational& found, double off, double& most) {
  const Rational beside = (real - found).magnitude();
  for (double share = 1.0; share > most; share -= 1.0 / 16) {
    if (!(Rational(off * share) < beside)) continue;
    most = share;
  }
  return beside <= Rational(off);
}

TEST(CpuBounds, HoldSumsInBinary64InAnyOrder) {
  Random random(1);
  double most = 0;
  bool exact = false;
  for (int round = 0; round < 2000; ++round) {
    const int k = 1 + below(random, round % 5 == 0 ? 3 : 200);
    // Of even rounds products have the bits of a binary64, so that every addition may round.
    const int bits = round % 2 == 0 ? 26 : 8;
    const int spread = 1 + below(random, round % 4 == 1 ? 8 : 20);
    const std::vector<double> a = numbers(random, k, bits, spread, round % 3 == 0);
    const std::vector<double> b = numbers(random, k, bits, spread, round % 3 == 0);
    std::vector<std::size_t> order(a.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    double parts[2] = {0, 0};
    for (const std::size_t i : order) parts[i % 2] = std::fma(a[i], b[i], parts[i % 2]);
    const double norms = norm_of(a) * norm_of(b);
    const double reach = norms * std::ldexp(1.0, 2 * (spread - 1 + bits));
    const double off = bound_of_sum(norms, reach, k + 1);
    exact = exact || off == 0;
    ASSERT_TRUE(within(dot(a, b), parts[0] + parts[1], off, most)) << round;
  }
  EXPECT_TRUE(exact);
  EXPECT_GT(most, 0.2) << "no data comes near the bound";
}

TEST(CpuBounds, KeepSumsOfIntegersInInt32) {
  Random random(2);
  std::int64_t most = 0;
  for (int round = 0; round < 3000; ++round) {
    // Elements alike, one alone, or any: near the greatest norm that a unit takes.
    std::vector<double> x = numbers(random, round % 3 == 0 ? 128 : 1 + below(random, 128), 4,
                                    round % 3 == 2 ? 12 : 1, false);
    if (round % 3 == 0) std::fill(x.begin(), x.end(), x[0]);
    const double by = 1.0 + below(random, 1 << 20) * 0x1p-20;
    double squares = 0, greatest = 0;
    for (double& v : x) {
      v *= by;
      squares += v * v;
      greatest = std::max(greatest, std::fabs(v));
    }
    const auto norm2 = std::nextafter(static_cast<float>(squares), INFINITY);
    const int e = unit_exponent(norm2, std::nextafter(static_cast<float>(greatest), INFINITY));
    std::int64_t sum = 0;
    for (const double v : x) {
      const auto i = static_cast<std::int64_t>(std::ldexp(v, -e));
      ASSERT_LT(std::abs(i), 32768);
      sum += i * i;  // with itself: by Cauchy-Schwarz no other is further
    }
    ASSERT_LT(sum, std::int64_t{1} << 31) << round;
    most = std::max(most, sum);
  }
  EXPECT_GT(most, std::int64_t{15} << 27) << "no data comes near 2^31";
}

/// Integers with a residual of the same sign, |f| < 1.
struct Integers {
  std::vector<double> v;
  std::vector<double> f;
  double residuals = 0;
  std::vector<double> elements() const {
    std::vector<double> x = v;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += f[i];
    return x;
  }
};
Integers integers(Random& random, int k, int top, int residuals, bool one_sign) {
  Integers x{std::vector<double>(static_cast<std::size_t>(k)), {}};
  x.f.assign(x.v.size(), 0.0);
  for (double& v : x.v) {
    v = top >> below(random, 5);
    v -= below(random, 1 + static_cast<int>(v) / 2);
    if (!one_sign) v = signed_by(random, v);
  }
  for (int n = 0; n < residuals; ++n) {
    const auto i = static_cast<std::size_t>(below(random, k));
    if (x.f[i] != 0) continue;
    x.f[i] = std::copysign(below(random, 16) / 16.0, x.v[i]);
    x.residuals += std::fabs(x.f[i]);
  }
  return x;
}

TEST(CpuBounds, HoldTwoSlicesRoundedToOdd) {
  Random random(3);
  double most = 0;
  for (int round = 0; round < 3000; ++round) {
    const int k = 1 + below(random, 512);
    const bool one_sign = round % 2 == 0;
    const Integers a = integers(random, k, 28672, below(random, 20), one_sign);
    const Integers b = integers(random, k, 28672, below(random, 20), one_sign);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < a.v.size(); ++i)
      sum += static_cast<std::int64_t>(a.v[i]) * static_cast<std::int64_t>(b.v[i]);
    int drop = 0;
    while (std::abs(sum) >> drop >= 1 << 24) ++drop;
    std::int64_t kept = std::abs(sum) >> drop;
    if (kept << drop != std::abs(sum)) kept |= 1;
    const auto odd = static_cast<float>(std::ldexp(sum < 0 ? -kept : kept, drop));
    const double off =
        static_cast<double>(std::fabs(odd) * kOfOdd) + a.residuals * 28672 + b.residuals * 28672;
    ASSERT_TRUE(within(dot(a.elements(), b.elements()), odd, off, most)) << round;
  }
  EXPECT_GT(most, 0.5) << "no data comes near the bound";
}

/// The slices of an integer, signed bytes, d2 first.
std::array<int, 3> slices(double v) {
  const auto whole = static_cast<int>(v);
  const int d0 = ((whole + 128) & 255) - 128;
  const int rest = (whole - d0) / 256;
  const int d1 = ((rest + 128) & 255) - 128;
  return {(rest - d1) / 256, d1, d0};
}

TEST(CpuBounds, HoldThreeSlicesRecombinedInBinary32) {
  Random random(4);
  double most = 0;
  for (int round = 0; round < 1500; ++round) {
    const int k = 1 + below(random, round % 10 == 0 ? 7168 : 300);
    const bool one_sign = round % 2 == 0;
    Integers a = integers(random, k, 0x7F7F7E, below(random, 8), one_sign);
    Integers b = integers(random, k, 0x7F7F7E, round % 3 == 0 ? 0 : below(random, 8), one_sign);
    // Against a: the upper slices cancel, and what is left is rounding and the lower ones.
    if (round % 4 == 1) {
      for (std::size_t i = 1; i < b.v.size(); i += 2) {
        b.v[i] = -std::trunc(a.v[i - 1] * b.v[i - 1] / (a.v[i] == 0 ? 1 : a.v[i]));
        if (std::fabs(b.v[i]) > 0x7F7F7E) b.v[i] = 0;
        b.f[i] = 0;
      }
      b.residuals = 0;
      for (const double f : b.f) b.residuals += std::fabs(f);
    }
    if (round % 7 == 3) {  // the lowest slices alone, whose sum is left out
      for (Integers* x : {&a, &b})
        *x = {std::vector<double>(x->v.size(), -128.0), std::vector<double>(x->v.size(), 0.0)};
    }
    std::int64_t sums[5] = {};
    for (std::size_t i = 0; i < a.v.size(); ++i) {
      const auto of_a = slices(a.v[i]), of_b = slices(b.v[i]);
      for (std::size_t m = 0; m < 3; ++m)
        for (std::size_t n = 0; n < 3; ++n) sums[4 - m - n] += of_a[m] * of_b[n];
    }
    auto c = static_cast<float>(sums[4]);
    for (const int i : {3, 2, 1}) c = std::fma(c, 256.0f, static_cast<float>(sums[i]));
    const auto share = [&](const Integers& x) {
      return share_of_three_slices(norm_of(x.v) + 1, static_cast<double>(k));
    };
    const double off = static_cast<double>(std::fabs(c) * kOfThreeSlices) + share(a) + share(b) +
                       (a.residuals + b.residuals) * 0x1p15;
    ASSERT_TRUE(
        within(dot(a.elements(), b.elements()), 256 * static_cast<double>(c), 256 * off, most))
        << round;
  }
  EXPECT_GT(most, 0.8) << "no data comes near the bound";
}

TEST(CpuBounds, HoldBlocksOfBf16InAnyOrder) {
  Random random(5);
  double most = 0;
  for (int round = 0; round < 4000; ++round) {
    const int blocks = 1 + below(random, 6);
    const int spread = 1 + below(random, 30);
    std::vector<double> a = numbers(random, 32 * blocks, 4, spread, round % 3 != 0);
    std::vector<double> b =
        numbers(random, 32 * blocks, 4, round % 2 == 0 ? spread : 1, round % 3 != 0);
    // The greatest first, then what carries more than half of a last place each time.
    const bool against = round % 4 == 0;
    if (against) {
      std::fill(a.begin(), a.end(), 15 * 0x1p-19);
      std::fill(b.begin(), b.end(), 9 * 0x1p-11);
      a[0] = b[0] = 15 * 0x1p-3;
    }
    const auto place = [&](const std::vector<double>& x) {
      double greatest = 0;
      for (auto at = x.begin(); at != x.end(); at += 32)
        greatest = std::max(greatest, norm_of({at, at + 32}));
      return place_of_blocks(greatest);
    };
    // An element of significand 8 to 15 is a multiple of its last bit.
    const auto small = [&](const std::vector<double>& x) {
      return std::count_if(x.begin(), x.end(),
                           [&](double v) { return std::ilogb(v) - 3 < place(x); });
    };
    Rational found;
    for (int block = 0; block < blocks; ++block) {
      std::vector<std::size_t> order(32);
      std::iota(order.begin(), order.end(), static_cast<std::size_t>(32 * block));
      if (!against) std::shuffle(order.begin(), order.end(), random);
      float of_block = 0;
      for (const std::size_t i : order) of_block += static_cast<float>(a[i] * b[i]);
      found = found + Rational(static_cast<double>(of_block));
    }
    const double off = std::ldexp(static_cast<double>(small(a) + small(b)), place(a) + place(b));
    ASSERT_TRUE(within(dot(a, b), found, off, most)) << round;
  }
  EXPECT_GT(most, 0.4) << "no data comes near the bound";
}

}  // namespace
}  // namespace mxo::cpu::cpu_bounds_test
