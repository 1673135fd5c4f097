// Integers from residues of their products, held by rational numbers (docs/exact_product.md).
#include "emu/exact/residues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/golden/rational.h"

namespace mxo::residues_test {
namespace {

using twin::Rational;

Rational product_of(int n) {
  Rational all(1.0);
  for (int i = 0; i < n; ++i) all = all * Rational(static_cast<double>(modulus(i).m));
  return all;
}

Rational number_of(const Limbs& limbs) {
  Rational all;
  for (int l = kLimbs - 1; l >= 0; --l)
    all = all * Rational(0x1p32) + Rational(static_cast<double>(limbs.word[l]));
  return all;
}

Combination combination_of(int n) {
  Combination of{};
  of.set_all(n);
  for (int i = 0; i < n; ++i) of.set(n, i);
  return of;
}

/// What residues by the moduli of `of` give.
template <int Count = kLimbs>
Recombined number_of(const std::vector<std::uint32_t>& residues, const Combination& of) {
  if constexpr (Count > 1)
    if (Count > limbs_of(of.count)) return number_of<Count - 1>(residues, of);
  Combined<Count> all;
  for (int i = 0; i < of.count; ++i) all.add(residues[static_cast<std::size_t>(i)], of, i);
  return all.number(of);
}

TEST(Residues, HaveModuliWithoutCommonDivisors) {
  for (int i = 0; i < kModuli; ++i) {
    for (int k = 0; k < i; ++k) EXPECT_EQ(std::gcd(modulus(i).m, modulus(k).m), 1u);
  }
}

TEST(Residues, OfSmallNumbersAreExact) {
  for (int i = 0; i < kModuli; ++i) {
    const Modulus of = modulus(i);
    for (std::uint32_t x = 0; x < 1u << 24; x += x < 1u << 18 ? 1 : 97)
      ASSERT_EQ(residue_of(x, of), x % of.m) << x << " mod " << of.m;
    for (std::uint32_t x = of.m - 1; x < 1u << 24; x += of.m)
      ASSERT_EQ(residue_of(x, of), of.m - 1) << x << " mod " << of.m;
  }
}

TEST(Residues, OfElementsAndSumsAreCongruent) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400000; ++round) {
    const Modulus of = modulus(static_cast<int>(random() % kModuli));
    const auto m = static_cast<std::int64_t>(of.m);
    const auto factor = static_cast<std::uint32_t>(random() % of.m);
    const auto significand = static_cast<std::int32_t>(random() % 1023) - 511;
    const std::uint32_t biased = biased_residue(significand, static_cast<std::int32_t>(factor), of);
    ASSERT_LT(biased, of.m);
    ASSERT_EQ((std::int64_t{biased} - 128 - std::int64_t{significand} * factor) % m, 0);
    const auto sum = static_cast<std::int32_t>(random() >> (random() % 2 == 0 ? 32 : 50)) *
                     (random() % 2 == 0 ? 1 : -1);
    for (const std::int32_t x : {sum, std::int32_t{-2147483647} - 1, std::int32_t{2147483647}}) {
      const std::int32_t near = near_remainder(x, of);
      ASSERT_EQ((std::int64_t{x} - near) % m, 0);
      ASSERT_TRUE(near >= -m && near < 2 * m);
    }
    constexpr std::int32_t kMost = (1 << 30) - 1;
    const std::int32_t whole = kMost / static_cast<std::int32_t>(m) * static_cast<std::int32_t>(m);
    for (const std::int32_t x :
         {sum % kMost, kMost, -kMost, whole, -whole, whole - 1, 1 - whole, -whole - 1}) {
      const std::uint32_t residue = residue_of_sum(x, of);
      ASSERT_TRUE(residue < 256 && residue <= m);
      ASSERT_EQ((std::int64_t{x} - residue) % m, 0) << x;
    }
  }
}

/// Magnitudes up to the capacity are less than half the moduli's product by 2^-0.02.
TEST(Residues, ServeUpToTheirCapacity) {
  double log2 = 0;
  for (int n = 1; n <= kModuli; ++n) {
    log2 += std::log2(static_cast<double>(modulus(n - 1).m));
    EXPECT_EQ(capacity_of_moduli(n), static_cast<int>(std::floor(8 * (log2 - 1.02))));
    EXPECT_EQ(moduli_for(capacity_of_moduli(n)), n);
    EXPECT_EQ(moduli_for(capacity_of_moduli(n) + 1), std::min(n + 1, kModuli));
    EXPECT_TRUE(number_of(product_of_moduli(n, n)) == product_of(n));
  }
}

/// Products of K-vectors of integers of up to 75 bits, and the greatest there may be.
TEST(Residues, GiveTheSumOfProductsOfIntegers) {
  std::mt19937_64 random(2);
  int lost = 0;
  for (int round = 0; round < 6000; ++round) {
    const int n = 1 + round % kModuli;
    const Combination of = combination_of(n);
    const std::size_t k = 1 + random() % 20;
    const int bits = (capacity_of_moduli(n) / 8 - 5) / 2;  // of an element; its significand has 8
    std::vector<std::int32_t> sums(static_cast<std::size_t>(n));
    Rational real;
    for (std::size_t e = 0; e < k; ++e) {
      const auto draw = [&] { return static_cast<std::int32_t>(random() % 511) - 255; };
      const auto place = [&] {
        const int most = std::max(bits - 8, 0);
        return random() % 4 == 0 ? most
                                 : static_cast<int>(random() % static_cast<unsigned>(most + 1));
      };
      const std::int32_t limit = bits < 8 ? 1 << bits : 256;
      const std::int32_t a = draw() % limit;
      const std::int32_t b = draw() % limit;
      const int place_a = place();
      const int place_b = place();
      real = real + Rational(std::ldexp(a, place_a)) * Rational(std::ldexp(b, place_b));
      for (int i = 0; i < n; ++i) {
        const Modulus m = modulus(i);
        const auto byte = [&](std::int32_t significand, int at) {
          std::uint32_t power = 1;
          for (int step = 0; step < at; ++step) power = residue_of(2 * power, m);
          return static_cast<std::int32_t>(
                     biased_residue(significand, static_cast<std::int32_t>(power), m)) -
                 128;
        };
        sums[static_cast<std::size_t>(i)] += byte(a, place_a) * byte(b, place_b);
      }
    }
    std::vector<std::uint32_t> residues;
    for (int i = 0; i < n; ++i)
      residues.push_back(residue_of_sum(sums[static_cast<std::size_t>(i)], modulus(i)));
    const Recombined is = number_of(residues, of);
    const Rational apart = (real - Rational(is.sum)).magnitude();
    ASSERT_TRUE(apart <= Rational(is.lost * (1 + 0x1p-20))) << n << ", " << round;
    lost += is.lost != 0 ? 1 : 0;
    if (is.lost == 0) continue;
    ASSERT_LE(is.lost, std::fabs(is.sum) * 0x1p-51);
  }
  EXPECT_GE(lost, 1000);
}

/// Numbers up to 504 / 1024 of the moduli's product, of either sign: the greatest there may be.
TEST(Residues, GiveTheGreatestNumbers) {
  for (int n = 1; n <= kModuli; ++n) {
    const Combination of = combination_of(n);
    Limbs step{};  // the product / 1024
    for (int l = 0; l < kLimbs; ++l) {
      const std::uint32_t above = l + 1 < kLimbs ? of.all.word[l + 1] << 22 : 0;
      step.word[l] = of.all.word[l] >> 10 | above;
    }
    for (int times = -504; times <= 504; times += times < -480 || times >= 480 ? 1 : 20) {
      std::vector<std::uint32_t> residues;
      for (int i = 0; i < n; ++i) {
        const auto m = std::int64_t{modulus(i).m};
        std::int64_t residue = 0;
        for (int l = kLimbs - 1; l >= 0; --l) residue = ((residue << 32) + step.word[l]) % m;
        const auto x = static_cast<std::int32_t>(residue * times % m);
        residues.push_back(residue_of_sum(x, modulus(i)));
      }
      const Rational real = number_of(step) * Rational(static_cast<double>(times));
      const Recombined is = number_of(residues, of);
      EXPECT_TRUE((real - Rational(is.sum)).magnitude() <= Rational(is.lost * (1 + 0x1p-20)))
          << n << ", " << times;
    }
  }
}

}  // namespace
}  // namespace mxo::residues_test
