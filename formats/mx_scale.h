// E8M0, and how the largest magnitude of a block becomes one.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>

#include "formats/host_device.h"
#include "formats/minifloat.h"
#include "formats/rounded_once.h"
#include "formats/scale_exponent.h"
#include "formats/scale_profile.h"

namespace mxo {

/// 2^(bits - 127); 0xFF is NaN, and there is no zero.  OCP MX v1.0, section 5.4.1.
struct E8M0 {
  std::uint8_t bits = 127;
  friend constexpr bool operator==(E8M0, E8M0) = default;
};

/// How amax becomes a power of two.
enum class ScaleMode : std::uint8_t {
  rceil,  ///< least power of two with amax / scale <= max; nothing saturates
  floor,  ///< 2^(floor(log2 amax) - emax); the top of the block may saturate
  ceil,   ///< 2^(ceil(log2 amax) - emax)
  even,   ///< floor of amax with its fraction rounded half up to the element's bits
};

/// Rounding of a float to E8M0.
enum class E8M0Rounding : std::uint8_t {
  nearest,  ///< ties up, as torch's cast
  up,       ///< cudaRoundPosInf
  zero,     ///< cudaRoundZero
};

/// The exact value; 2^-127 is a subnormal float, FF gives 7FC00000.
MXO_HD constexpr float decode(E8M0 x) {
  if (x.bits == 0xFF) return bit_cast<float>(0x7FC00000u);
  if (x.bits == 0) return bit_cast<float>(0x00400000u);
  return bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 23);
}

/// 1 / scale as a float, exact: 2^127 for byte 0, 2^-127 for FE, NaN for FF.
MXO_HD constexpr float reciprocal(E8M0 x) {
  return x.bits == 0xFF ? decode(x) : decode(E8M0{static_cast<std::uint8_t>(254 - x.bits)});
}

/// The sign of `value` is ignored.  NaN gives FF; infinity and an overflowing round-up
/// give FE if `saturate`, else FF.
MXO_HD constexpr E8M0 encode_e8m0(float value, E8M0Rounding rounding, bool saturate) {
  const std::uint32_t magnitude = bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {0xFF};
  if (magnitude == 0x7F800000u) return {static_cast<std::uint8_t>(saturate ? 0xFE : 0xFF)};
  const std::uint32_t field = magnitude >> 23;
  const std::uint32_t fraction = magnitude & 0x7FFFFFu;
  bool above = false;  // of the code `field`; code 0 stands for 2^-127, fraction 0x400000
  switch (rounding) {
    case E8M0Rounding::up: above = field == 0 ? fraction > 0x400000u : fraction != 0; break;
    case E8M0Rounding::nearest:
      above = field == 0 ? fraction > 0x400000u : fraction >= 0x400000u;
      break;
    case E8M0Rounding::zero: break;
  }
  const std::uint32_t code = field + (above ? 1 : 0);
  return {static_cast<std::uint8_t>(saturate && code == 0xFF ? 0xFE : code)};
}

/// fl32(1 / max): 3B124925 for 448, 37924925 for 57344, 3B888889 for 240.
template <FormatSpec S>
MXO_HD constexpr float max_reciprocal() {
  constexpr int top = S.max_finite() & ((1 << S.mantissa_bits) - 1);
  // max = (2^m + top) * 2^(emax - m); dividing by an exact double power is exact.
  constexpr double significand = (1 << S.mantissa_bits) + top;
  double power = 1.0;
  for (int i = 0; i < S.max_exponent() - S.mantissa_bits; ++i) power *= 0.5;
  return static_cast<float>(div_rn(power, significand));
}

/// An exponent as a code, from 0 to FE.
MXO_HD constexpr E8M0 clamped_e8m0(int exponent) {
  const int code = exponent + 127;
  return {static_cast<std::uint8_t>(code < 0 ? 0 : code > 0xFE ? 0xFE : code)};
}

/// The shared scale of a block whose largest magnitude is `amax` >= 0 (or NaN).
///
///   floor  2^(floor(log2 amax) - emax)            ceil   2^(ceil(log2 amax) - emax)
///   even   floor of amax rounded half up to 1+m bits (1.5 of the torchao rules)
///   rceil  the descale of the profile, rounded up to a power of two
///
/// Zero gives the least scale, 2^-127.  NaN gives FF, or what the profile says; so does infinity.
/// A profile with an exponent rule of its own does not read `mode`.
template <FormatSpec S>
MXO_HD constexpr E8M0 shared_scale(float amax, ScaleMode mode, const ScaleProfile& profile) {
  const auto word = bit_cast<std::uint32_t>(amax);
  if (word > 0x7F800000u) return {profile.nan_scale};
  if (word == 0x7F800000u) {
    const bool saturates = profile.infinity == InfinityRule::saturate ||
                           profile.infinity == InfinityRule::saturate_flush;
    return {static_cast<std::uint8_t>(saturates ? 0xFE : 0xFF)};
  }
  if (profile.exponent != ExponentRule::by_mode) {
    return clamped_e8m0(scale_exponent<S>(amax, profile.exponent));
  }
  constexpr int emax = S.max_exponent();
  const bool always = profile.up == SubnormalUp::always;
  const auto rounded_up = [always](float quotient) {
    if (always && quotient > 0.0f && quotient < 0x1p-126f) return E8M0{1};
    return encode_e8m0(quotient, E8M0Rounding::up, false);
  };

  if (mode == ScaleMode::rceil) {
    if (profile.descale == Descale::reciprocal_multiply) {
      return rounded_up(mul_rn(amax, max_reciprocal<S>()));
    }
    constexpr float max = static_cast<float>((1 << S.mantissa_bits) +
                                             (S.max_finite() & ((1 << S.mantissa_bits) - 1))) *
                          static_cast<float>(1 << (emax - S.mantissa_bits));
    if (profile.descale == Descale::division_in_bf16) {
      return rounded_up(decode(encode<kBF16>(div_rn(amax, max))));
    }
    if (profile.descale == Descale::division_in_f16) {
      return rounded_up(decode(encode<kF16>(div_rn(amax, max))));
    }
    if (profile.descale != Descale::exact) return rounded_up(div_rn(amax, max));
    // exact: compare significands.  amax = significand * 2^(exponent - 23).
    constexpr std::uint32_t max_fraction =
        static_cast<std::uint32_t>(S.max_finite() & ((1 << S.mantissa_bits) - 1))
        << (23 - S.mantissa_bits);
    const int field = static_cast<int>(word >> 23);
    const int code = field - emax + ((word & 0x7FFFFFu) > max_fraction ? 1 : 0);
    return {static_cast<std::uint8_t>(code < 0 ? 0 : code)};
  }

  if (mode == ScaleMode::floor && profile.floor == FloorRule::multiply) {
    const float power = bit_cast<float>(static_cast<std::uint32_t>(127 - emax) << 23);
    return encode_e8m0(mul_rn(amax, power), E8M0Rounding::zero, false);
  }
  if (mode == ScaleMode::ceil && always) {
    return rounded_up(mul_rn(amax, bit_cast<float>(static_cast<std::uint32_t>(127 - emax) << 23)));
  }
  std::uint32_t exponent = word >> 23;
  if (mode == ScaleMode::even) {
    exponent = (word + (1u << (22 - S.mantissa_bits))) >> 23;
    if (exponent == 0xFF) return {0xFF};  // torchao: the rounded amax is infinite
  } else if (mode == ScaleMode::ceil && (word & 0x7FFFFFu) != 0) {
    ++exponent;
  }
  const int code = static_cast<int>(exponent) - emax;
  return {static_cast<std::uint8_t>(code < 0 ? 0 : code)};
}

static_assert(max_reciprocal<kE4M3>() == bit_cast<float>(0x3B124925u));
static_assert(max_reciprocal<kE5M2>() == bit_cast<float>(0x37924925u));
static_assert(max_reciprocal<kE4M3Fnuz>() == bit_cast<float>(0x3B888889u));
static_assert(shared_scale<kE4M3>(449.0f, ScaleMode::floor, kTorchao).bits == 127);
static_assert(shared_scale<kE4M3>(449.0f, ScaleMode::rceil, kTorchao).bits == 128);

}  // namespace mxo
