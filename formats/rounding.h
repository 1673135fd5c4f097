// Roundings to an 8-bit code besides nearest even.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/minifloat.h"

namespace mxo {

/// Which of the two codes around a value it becomes (IEEE 754-2019, 4.3; odd: Boldo, Melquiond
/// 2008).  A value that is a code stays one.
enum class Rounding : std::uint8_t {
  even,       ///< the nearest, ties to the even code
  ties_away,  ///< the nearest, ties away from zero
  ties_zero,  ///< the nearest, ties toward zero
  zero,       ///< toward zero
  away,       ///< away from zero
  down,       ///< toward minus infinity
  up,         ///< toward plus infinity
  odd,        ///< the one whose last bit is 1
};

/// Names of --set rounding, in the order of the enumeration.
inline constexpr const char* kRoundingNames[] = {"even", "ties_away", "ties_zero", "zero",
                                                 "away", "down",      "up",        "odd"};

/// encode() under any rounding.  Beyond the largest finite value all of them give what `overflow`
/// says, and between it and the overflow of nearest even the largest value.
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> encode_rounded(float value, Rounding how, Overflow overflow) {
  static_assert(S.bits() == 8);
  const Minifloat<S> nearest = encode<S>(value, overflow);
  const auto word = bit_cast<std::uint32_t>(value);
  const float magnitude = bit_cast<float>(word & 0x7FFFFFFFu);
  int low = encode<S>(magnitude, Overflow::saturate).bits;
  const auto value_of = [](int code) {
    return decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(code)});
  };
  if (how == Rounding::even || is_nan(nearest) || is_infinite(nearest)) return nearest;
  if (value_of(low) > magnitude) --low;
  if (low == S.max_finite() || value_of(low) == magnitude) return nearest;

  // Sums of neighbours are exact: a float holds 24 bits, and they have 5.
  const float middle = 0.5f * (value_of(low) + value_of(low + 1));
  const bool negative = word >> 31 != 0;
  bool above = false;
  switch (how) {
    case Rounding::even:
    case Rounding::zero: break;
    case Rounding::ties_away: above = magnitude >= middle; break;
    case Rounding::ties_zero: above = magnitude > middle; break;
    case Rounding::away: above = true; break;
    case Rounding::down: above = negative; break;
    case Rounding::up: above = !negative; break;
    case Rounding::odd: above = low % 2 == 0; break;
  }
  const int code = low + (above ? 1 : 0);
  if (S.special == Special::nan_minus_0 && code == 0) return {0};
  return {static_cast<typename Minifloat<S>::Bits>((negative ? 0x80 : 0) | code)};
}

static_assert(encode_rounded<kE4M3>(464.0f, Rounding::zero, Overflow::saturate).bits == 0x7E);
static_assert(encode_rounded<kE4M3>(1.0625f, Rounding::ties_away, Overflow::saturate).bits == 0x39);
static_assert(encode_rounded<kE4M3Fnuz>(-1e-9f, Rounding::up, Overflow::saturate).bits == 0x00);

}  // namespace mxo
