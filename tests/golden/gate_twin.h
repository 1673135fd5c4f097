// Gate bound against its twin in rational numbers: what tests of it share.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "golden/judge/bound.h"
#include "golden/judge/elements.h"
#include "tests/golden/rational.h"
#include "tests/golden/tensors.h"
#include "tests/support/random_tensors.h"

namespace mxo::gate_twin {

using twin::Rational;

inline const Rational kUnit = twin::power(-24);
inline const Rational kMost(static_cast<double>(std::numeric_limits<float>::max()));

/// K u / (1 - K u).
inline Rational gamma(Index k) {
  const Rational ku = Rational(static_cast<double>(k)) * kUnit;
  return ku / (Rational(1) - ku);
}

inline std::uint32_t bits_of(Dtype out, double value) {
  const auto single = static_cast<float>(value);
  if (out == Dtype::bf16) return encode<kBF16>(single).bits;
  if (out == Dtype::f16) return encode<kF16>(single).bits;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  return bits;
}

/// What a kernel might give: neighbours of the ends, of the result, and the edges of the type.
inline std::set<std::uint32_t> candidates(Dtype out, double exact, double stray) {
  const twin::Layout layout = twin::layout_of(out);
  std::set<std::uint32_t> bits{0,
                               layout.sign(),
                               1,
                               layout.infinity() - 1,
                               layout.infinity(),
                               layout.infinity() | layout.sign()};
  for (const double end : {exact - stray, exact, exact + stray}) {
    const std::uint32_t at = bits_of(out, end);
    for (std::uint32_t step = 0; step < 7; ++step) {
      const std::uint32_t pattern = (at & (layout.sign() - 1)) + step;
      if (pattern >= 3) bits.insert((at & layout.sign()) | (pattern - 3));
    }
  }
  return bits;
}

struct Twin {
  Rational real;
  Rational stray;
  Rational reach;  ///< what a sum on the way may reach
  bool rounded = true;

  /// One more term of the sum.
  void add(const Rational& term) {
    real = real + term;
    reach = reach + term.magnitude();
  }
  /// Its k terms are rounded and added in any order.
  void round(Index k) {
    stray = gamma(k) * reach + Rational(static_cast<double>(k)) * twin::power(-149);
  }
};

/// Adds a block of a sum times its scales in f32, as one of so many pieces (docs/gates.md);
/// `spill`: what a step on the way may reach.
inline void add_scaled(Twin& whole, const Twin& part, const Rational& sx, const Rational& sw,
                       Index pieces, Rational& spill) {
  const Rational s = sx * sw;
  whole.real = whole.real + part.real * s;
  whole.reach = whole.reach + part.reach * s;
  if (!whole.rounded) return;
  const Rational most = part.reach + part.stray;
  whole.stray =
      whole.stray + part.stray * s +
      Rational(3) * kUnit * (Rational(1) + twin::power(-20)) * most * s +
      Rational(static_cast<double>(pieces)) * twin::power(-149) * (most + sx + sw + Rational(2));
  spill = larger(spill, larger(larger(most * sx, most * sw), larger(s, most * s)));
}

struct Counts {
  Index passed = 0;
  Index refused = 0;
  Index open = 0;  ///< not bounded
};

/// Every candidate for element i of `bound`, as each type.
inline void hold(const ErrorBound& bound, Index i, const Twin& twin, const std::string& what,
                 Counts& seen) {
  const auto at = static_cast<std::size_t>(i);
  // The documented bound is computed upward, in doubles.
  const Rational wide = twin.stray * (Rational(1) + twin::power(-40));
  if (!bound.promises(i)) {
    ASSERT_TRUE(kMost < (twin.reach + wide) * (Rational(1) + twin::power(-40))) << what;
    ++seen.open;
    return;
  }
  ASSERT_FALSE(twin.rounded && kMost < twin.reach + twin.stray) << what;
  for (const Dtype out : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    const ElementReader read(out);
    for (const std::uint32_t bits : candidates(out, bound.exact[at], bound.stray[at])) {
      const bool passes = bound.admits(i, out, read(bits).value);
      const bool within = twin::admits(twin.real, twin.stray, out, bits);
      ASSERT_TRUE(passes || !within) << what << ", " << name_of(out) << " " << bits;
      ASSERT_TRUE(!passes || twin::admits(twin.real, wide, out, bits))
          << what << ", " << name_of(out) << " " << bits;
      ++(passes ? seen.passed : seen.refused);
    }
  }
}

/// Rows of numbers: of every size, near ties, subnormal, and near the end of the range.
inline Tensor operand(Dtype type, std::vector<Index> shape, std::uint64_t seed) {
  Tensor t(type, std::move(shape));
  std::mt19937_64 random(seed);
  const int least = seed % 5 == 3 ? -75 : seed % 5 == 4 ? 59 : -4;
  for (Index i = 0; i < t.elements(); ++i) {
    const bool power = random() % 4 == 0;
    const double significand = power ? 1 : 1 + static_cast<double>(random() >> 11) * 0x1p-53;
    const int exponent = least + static_cast<int>(random() % (random() % 8 == 0 ? 30 : 5)) -
                         (type == Dtype::f16 && seed % 5 == 3 ? -60 : 0) -
                         (type == Dtype::f16 && seed % 5 == 4 ? 60 : 0);
    const auto v = static_cast<float>(std::ldexp(random() % 2 == 0 ? significand : -significand,
                                                 std::min(exponent, type == Dtype::f16 ? 14 : 63)));
    test::put(t, i, v);
  }
  return t;
}

inline double value_at(const Tensor& t, Dtype type, Index i) {
  return ElementReader(type)(bits_at(t, i)).value;
}

}  // namespace mxo::gate_twin
