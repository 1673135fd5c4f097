// Integers by their residues modulo numbers of eight bits, and what they are from these (the
// Chinese remainder theorem).  docs/exact_product.md, Products on a device.
#pragma once

#include <cmath>
#include <cstdint>

#include "emu/exact/rounding_test.h"

namespace mxo {

inline constexpr int kModuli = 20;
inline constexpr int kLimbs = kModuli / 4;  ///< words of 32 bits of the product of all moduli
/// Words that hold the product of n moduli.
MXO_HD inline int limbs_of(int n) { return (n + 3) / 4; }

/// A modulus, and what divides by it.
struct Modulus {
  std::uint32_t m;
  std::uint32_t inverse;  ///< the least integer above 2^32 / m
  std::int32_t fine;      ///< the least integer above 2^38 / m
};
struct Moduli {
  Modulus of[kModuli];
};
/// No two of them have a common divisor.
MXO_HD constexpr Moduli all_moduli() {
  constexpr std::uint16_t kOf[kModuli] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                                          223, 217, 211, 199, 197, 193, 191, 181, 179, 173};
  Moduli all{};
  for (int i = 0; i < kModuli; ++i) {
    all.of[i] = {kOf[i], static_cast<std::uint32_t>((std::uint64_t{1} << 32) / kOf[i] + 1),
                 static_cast<std::int32_t>((std::int64_t{1} << 38) / kOf[i] + 1)};
  }
  return all;
}
MXO_HD inline Modulus modulus(int i) {
  static constexpr Moduli kAll = all_moduli();
  return kAll.of[i];
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
/// A byte congruent to a sum below 2^30 in magnitude: its residue, or m below 256 in place of 0.
/// The quotient is off by less than sum 2^-38, a part of 1 / m.
MXO_HD inline std::uint32_t residue_of_sum(std::int32_t sum, const Modulus& of) {
  const auto quotient = static_cast<std::uint32_t>(std::int64_t{sum} * of.fine >> 38);
  return (static_cast<std::uint32_t>(sum) - quotient * of.m) & 0xFF;
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
/// `of` times a number of eight bits.
MXO_HD inline Limbs times(Limbs of, std::uint32_t factor) {
  std::uint64_t carry = 0;
  for (std::uint32_t& word : of.word) {
    carry += std::uint64_t{word} * factor;
    word = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  return of;
}
/// The product of the first `n` moduli but number `without`.
MXO_HD inline Limbs product_of_moduli(int n, int without) {
  Limbs all{{1}};
  for (int i = 0; i < n; ++i) {
    if (i != without) all = times(all, modulus(i).m);
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

/// How an integer is put together from its residues by the first `count` moduli.
struct Combination {
  int count;
  Limbs all;                     ///< the product of the moduli
  Limbs weight[kModuli];         ///< 1 modulo number i, 0 modulo the others
  std::uint32_t share[kModuli];  ///< 2^32 weight / all, to the nearest

  /// Sets what belongs to modulus number i of n.
  MXO_HD void set(int n, int i) {
    const std::uint32_t inverse = inverse_of_product(n, i);
    const std::uint32_t m = modulus(i).m;
    weight[i] = times(product_of_moduli(n, i), inverse);
    share[i] = static_cast<std::uint32_t>(((std::uint64_t{inverse} << 32) + m / 2) / m);
  }
  /// Sets the rest.
  MXO_HD void set_all(int n) {
    count = n;
    all = product_of_moduli(n, n);
  }
};

/// A product of integers: `sum`, or off from it by no more than `lost`, raised by its roundings.
struct Recombined {
  double sum;
  double lost;
};

/// The integer whose residues are added: the sum of weight * residue, less as many times the
/// product of the moduli as that sum holds it, to the nearest.  The integer is less than 2^-0.02 of
/// a half of that product, so that `turns`, in 2^-32 of it, say how many.
template <int Count>
struct Combined {
  std::uint64_t limb[Count] = {};
  std::uint64_t turns = 0;

  MXO_HD void add(std::uint32_t residue, const Combination& of, int i) {
    turns += std::uint64_t{residue} * of.share[i];
    for (int l = 0; l < Count; ++l) limb[l] += std::uint64_t{residue} * of.weight[i].word[l];
  }
  /// What the limbs above the least two lose is kept.
  MXO_HD Recombined number(const Combination& of) const {
    const auto times = static_cast<std::uint32_t>((turns + (std::uint64_t{1} << 31)) >> 32);
    std::uint32_t word[Count];
    std::int64_t carry = 0;
    for (int l = 0; l < Count; ++l) {
      carry += static_cast<std::int64_t>(limb[l] - std::uint64_t{times} * of.all.word[l]);
      word[l] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    Recombined all{static_cast<double>(carry), 0};  // 0 or -1: the sign
    for (int l = Count - 1; l >= 0; --l) {
      const TwoSum next = two_sum(all.sum * 0x1p32, static_cast<double>(word[l]));
      all = {next.sum, all.lost * 0x1p32 + fabs(next.lost)};
    }
    return all;
  }
};

}  // namespace mxo
