// Encoding and decoding of floats of 8 and 16 bits, identical on host and device.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "formats/format_spec.h"
#include "formats/host_device.h"

namespace mxo {

/// What encode() makes of a value beyond the largest finite one, infinity included.
enum class Overflow : std::uint8_t {
  saturate,   ///< the largest finite value, as PTX satfinite
  nonfinite,  ///< infinity where the format has one, else NaN
};

/// The sign of the NaN that encode() writes; fnuz has one NaN only.
enum class NanSign : std::uint8_t { positive, of_operand };

/// One stored element.  Holds bits, never arithmetic: decode, compute, encode.
template <FormatSpec S>
struct Minifloat {
  using Bits = std::conditional_t<(S.bits() > 8), std::uint16_t, std::uint8_t>;
  static constexpr FormatSpec spec = S;
  Bits bits = 0;
  friend constexpr bool operator==(Minifloat, Minifloat) = default;
};

using E4M3 = Minifloat<kE4M3>;
using E5M2 = Minifloat<kE5M2>;
using E4M3Fnuz = Minifloat<kE4M3Fnuz>;
using E5M2Fnuz = Minifloat<kE5M2Fnuz>;
using F16 = Minifloat<kF16>;
using BF16 = Minifloat<kBF16>;

/// The NaN this library writes: all ones in 8 bits (7F, as PTX and torch), the
/// canonical quiet NaN in 16 bits (7FC0, 7E00), 80 in fnuz.
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> make_nan(std::uint32_t sign = 0) {
  using Bits = typename Minifloat<S>::Bits;
  if constexpr (S.special == Special::nan_minus_0) return {static_cast<Bits>(1u << S.sign_shift())};
  constexpr std::uint32_t all_ones = (1u << S.sign_shift()) - 1;
  constexpr std::uint32_t quiet = S.bits() == 16 ? static_cast<std::uint32_t>(S.max_finite()) + 1 +
                                                       (1u << (S.mantissa_bits - 1))
                                                 : all_ones;
  return {static_cast<Bits>(sign << S.sign_shift() | quiet)};
}

template <FormatSpec S>
MXO_HD constexpr bool is_nan(Minifloat<S> x) {
  constexpr int last = S.max_finite() + (S.special == Special::ieee ? 1 : 0);
  const int magnitude = x.bits & ((1 << S.sign_shift()) - 1);
  if constexpr (S.special == Special::nan_minus_0) return x.bits == 1 << S.sign_shift();
  return magnitude > last;
}

template <FormatSpec S>
MXO_HD constexpr bool is_infinite(Minifloat<S> x) {
  constexpr int infinity = S.max_finite() + 1;
  return S.special == Special::ieee && (x.bits & ((1 << S.sign_shift()) - 1)) == infinity;
}

/// The exact value of `x`; every code of every spec fits a float.  NaN gives 7FC00000.
template <FormatSpec S>
MXO_HD constexpr float decode(Minifloat<S> x) {
  constexpr int m = S.mantissa_bits;
  if (is_nan(x)) return bit_cast<float>(0x7FC00000u);
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits >> S.sign_shift()) << 31;
  const auto magnitude = static_cast<std::uint32_t>(x.bits & ((1 << S.sign_shift()) - 1));
  if (is_infinite(x)) return bit_cast<float>(sign | 0x7F800000u);
  // A format with float's own exponent range is the upper part of a float.
  if constexpr (S.exponent_bits == 8) return bit_cast<float>(sign | magnitude << (23 - m));

  auto exponent = static_cast<int>(magnitude >> m);
  std::uint32_t fraction = magnitude & ((1u << m) - 1);
  if (exponent == 0) {
    if (fraction == 0) return bit_cast<float>(sign);
    // Subnormal: move the leading one up to the implicit place.
    exponent = 1;
    while ((fraction >> m) == 0) {
      fraction <<= 1;
      --exponent;
    }
    fraction &= (1u << m) - 1;
  }
  return bit_cast<float>(sign | static_cast<std::uint32_t>(exponent - S.bias + 127) << 23 |
                         fraction << (23 - m));
}

/// The nearest value of the format, ties to even (IEEE 754-2019, 4.3.1).
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> encode(float value, Overflow overflow = Overflow::nonfinite,
                                     NanSign nan_sign = NanSign::positive) {
  using Bits = typename Minifloat<S>::Bits;
  constexpr int m = S.mantissa_bits;
  constexpr int largest = S.max_finite();
  const auto word = bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = word >> 31;
  const std::uint32_t magnitude = word & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return make_nan<S>(nan_sign == NanSign::of_operand ? sign : 0);
  }

  // 1. value = significand * 2^(exponent - 23), the significand below 2^24.
  const int field = static_cast<int>(magnitude >> 23);
  const int exponent = (field > 0 ? field : 1) - 127;
  const std::uint32_t significand = (magnitude & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);

  // 2. Drop the low bits; below the normal range one more per binade.
  const int deficit = S.min_exponent() - exponent;
  const int drop = 23 - m + (deficit > 0 ? deficit : 0);
  std::uint32_t kept = 0;
  if (drop < 26) {  // beyond that, less than half a step remains
    const std::uint32_t half = 1u << (drop - 1);
    const std::uint32_t rest = significand & (2 * half - 1);
    kept = significand >> drop;
    kept += rest > half || (rest == half && (kept & 1u));
  }
  // 3. `kept` still carries the implicit bit, hence the -1: a carry out of the
  // rounding then moves into the exponent by itself.
  const int base = deficit > 0 ? 0 : exponent + S.bias - 1;
  int code = (base << m) + static_cast<int>(kept);

  // 4. Overflow.
  if (code > largest) {
    if (overflow == Overflow::saturate) {
      code = largest;
    } else if constexpr (S.special == Special::ieee) {
      code = largest + 1;
    } else {
      // A NaN that stands for an overflow keeps the sign (PTX and torch agree).
      return make_nan<S>(sign);
    }
  }
  if (S.special == Special::nan_minus_0 && code == 0) return {0};
  return {static_cast<Bits>(sign << S.sign_shift() | static_cast<std::uint32_t>(code))};
}

static_assert(decode(E4M3{0x7E}) == 448.0f && decode(E4M3Fnuz{0x7F}) == 240.0f);
static_assert(encode<kE4M3>(464.0f).bits == 0x7E);  // a tie, the even code stays
static_assert(encode<kE4M3Fnuz>(-0.0f).bits == 0x00);
static_assert(encode<kBF16>(1.00390625f).bits == 0x3F80 && decode(E4M3{0x01}) == 0x1p-9f);

}  // namespace mxo
