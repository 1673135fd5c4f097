// Integers by their residues modulo numbers of eight bits, and what they are from these (the
// Chinese remainder theorem).  docs/exact_product.md, Products on a device.
#pragma once

#include <cmath>
#include <cstdint>

#include "emu/exact/rounding_test.h"

namespace mxo {

inline constexpr int kModuli = 20;
inline constexpr int kLimbs = 5;  ///< words of 32 bits of the product of all moduli

/// A modulus, and what divides by it.
struct Modulus {
  std::uint32_t m;
  std::uint32_t inverse;  ///< the least integer above 2^32 / m
};
/// No two of them have a common divisor.
MXO_HD inline Modulus modulus(int i) {
  constexpr std::uint16_t kOf[kModuli] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                                          223, 217, 211, 199, 197, 193, 191, 181, 179, 173};
  return {kOf[i], static_cast<std::uint32_t>((std::uint64_t{1} << 32) / kOf[i] + 1)};
}
/// x mod m for x below 2^24: the quotient is off by less than x 2^-32, a part of 1 / m.
MXO_HD inline std::uint32_t residue_of(std::uint32_t x, const Modulus& of) {
  return x - static_cast<std::uint32_t>(std::uint64_t{x} * of.inverse >> 32) * of.m;
}
/// A number congruent to any x, between -m and 2 m.
MXO_HD inline std::int32_t near_remainder(std::int32_t x, const Modulus& of) {
  const auto quotient = static_cast<std::uint32_t>(std::int64_t{x} * of.inverse >> 32);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x) - quotient * of.m);
}

/// 128 more than an int8 congruent to significand * power; `significand` of at most nine bits,
/// `power` a residue.
MXO_HD inline std::uint32_t biased_residue(std::int32_t significand, std::int32_t power,
                                           const Modulus& of) {
  return residue_of(static_cast<std::uint32_t>(significand * power) + (of.m << 10) + 128, of);
}
/// The residue of sum * factor; `factor` is one, too.
MXO_HD inline std::uint32_t residue_of_sum(std::int32_t sum, std::uint32_t factor,
                                           const Modulus& of) {
  const auto scaled = static_cast<std::uint32_t>(near_remainder(sum, of)) * factor;
  return residue_of(scaled + (of.m << 10), of);
}

/// Eight times the base 2 logarithm of the magnitudes that the first n moduli tell from one
/// another, 2^-0.02 of half their product, rounded down.
MXO_HD inline int capacity_of_moduli(int n) {
  constexpr std::int16_t kOf[kModuli] = {55,  119, 183, 247, 311, 374, 437,  500,  563,  625,
                                         688, 750, 812, 873, 934, 994, 1055, 1115, 1175, 1234};
  return kOf[n - 1];
}
/// How many a product takes of two K-vectors with such logarithms of their norms together.
MXO_HD inline int moduli_for(int reach) {
  int n = 1;
  while (n < kModuli && capacity_of_moduli(n) < reach) ++n;
  return n;
}

struct Limbs {
  std::uint32_t word[kLimbs];  ///< the least first
};
/// The product of the first `n` moduli but number `without`.
MXO_HD inline Limbs product_of_moduli(int n, int without) {
  Limbs all{{1}};
  for (int i = 0; i < n; ++i) {
    if (i == without) continue;
    std::uint64_t carry = 0;
    for (std::uint32_t& word : all.word) {
      carry += std::uint64_t{word} * modulus(i).m;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  return all;
}
/// What gives 1 times product_of_moduli(n, i), modulo number i.
MXO_HD inline std::uint32_t inverse_of_product(int n, int i) {
  const Modulus of = modulus(i);
  std::uint32_t product = 1;
  for (int k = 0; k < n; ++k) {
    if (k != i) product = residue_of(product * modulus(k).m, of);
  }
  std::uint32_t inverse = 1;
  while (residue_of(product * inverse, of) != 1) ++inverse;
  return inverse;
}

/// What `Combination` has of a modulus.
MXO_HD inline std::uint32_t share_of(const Modulus& of) { return ((1u << 24) + of.m / 2) / of.m; }

/// How an integer is put together from its residues by the first `count` moduli.
struct Combination {
  int count;
  int limbs;  ///< that hold the product of the moduli
  Limbs all;  ///< that product
  Limbs weight[kModuli];
  std::uint32_t inverse[kModuli];
  std::uint32_t share[kModuli];  ///< 2^24 / m, to the nearest
};

/// A product of integers: `sum`, or off from it by no more than `lost`, raised by its roundings.
struct Recombined {
  double sum;
  double lost;
};

/// The integer whose residues times `inverse` are added: the sum of weight * residue, less as many
/// times the product of the moduli as the sum of residue / m is nearest to.  The integer is less
/// than 2^-0.02 of a half of that product, so that `turns`, in 2^-24, say which.
struct Combined {
  std::uint64_t limb[kLimbs] = {};
  std::uint32_t turns = 0;

  MXO_HD void add(std::uint32_t residue, const Combination& of, int i) {
    turns += residue * of.share[i];
    for (int l = 0; l < kLimbs; ++l) {
      if (l < of.limbs) limb[l] += std::uint64_t{residue} * of.weight[i].word[l];
    }
  }
  /// What the limbs above the least two lose is kept.
  MXO_HD Recombined number(const Combination& of) const {
    const std::int64_t times = (turns + (1u << 23)) >> 24;
    std::uint32_t word[kLimbs] = {};
    std::int64_t carry = 0;
    for (int l = 0; l < kLimbs; ++l) {
      if (l >= of.limbs) continue;
      carry += static_cast<std::int64_t>(limb[l]) - times * std::int64_t{of.all.word[l]};
      word[l] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    Recombined all{static_cast<double>(carry), 0};  // 0 or -1: the sign
    for (int l = kLimbs - 1; l >= 0; --l) {
      if (l >= of.limbs) continue;
      const TwoSum next = two_sum(all.sum * 0x1p32, static_cast<double>(word[l]));
      all = {next.sum, all.lost * 0x1p32 + fabs(next.lost)};
    }
    return all;
  }
};

}  // namespace mxo
