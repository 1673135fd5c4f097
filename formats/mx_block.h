// One MX block: the definition of quantise and dequantise, element by element.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/minifloat.h"
#include "formats/mx_scale.h"
#include "formats/rounded_once.h"
#include "formats/rounding.h"
#include "formats/tensor_view.h"

namespace mxo {

/// Elements that share one scale in MX (OCP MX v1.0, table 1).
inline constexpr Index kMxBlock = 32;

/// amax of a block, one element at a time: |x| joins `amax`.  Magnitudes of floats order as
/// unsigned integers and every NaN lies above infinity, so one comparison serves both rules.
MXO_HD constexpr std::uint32_t join_amax(std::uint32_t amax, float x, NanRule nan) {
  const std::uint32_t magnitude = bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  if (nan == NanRule::ignore && magnitude > 0x7F800000u) return amax;
  return magnitude > amax ? magnitude : amax;
}

/// What a NaN element becomes.
enum class NanCode : std::uint8_t {
  nan,      ///< the NaN code
  lowest,   ///< the code of -max: min(max(NaN, -max), max) as fminf and fmaxf have it
  highest,  ///< the code of max: max(-max, min(NaN, max))
};

/// The sign of an element that is zero after scaling.
enum class ZeroSign : std::uint8_t { kept, lost };

/// How a scaled element becomes a code.
struct ElementRule {
  Rounding rounding = Rounding::even;
  Overflow overflow = Overflow::saturate;
  NanCode nan = NanCode::nan;
  ZeroSign zero = ZeroSign::kept;
  double fnuz_max = 0;  ///< e4m3fnuz: what elements are clamped to where it is not 240
  friend constexpr bool operator==(const ElementRule&, const ElementRule&) = default;
};

template <FormatSpec S>
MXO_HD constexpr Minifloat<S> encode_element(float scaled, const ElementRule& rule) {
  constexpr float largest = decode(Minifloat<S>{static_cast<std::uint8_t>(S.max_finite())});
  const bool clamps = S == kE4M3Fnuz && rule.fnuz_max > 0;
  const float max = clamps ? static_cast<float>(rule.fnuz_max) : largest;
  const std::uint32_t magnitude = bit_cast<std::uint32_t>(scaled) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u && rule.nan != NanCode::nan) {
    return encode<S>(rule.nan == NanCode::lowest ? -max : max);
  }
  if (clamps && scaled > max) scaled = max;
  if (clamps && scaled < -max) scaled = -max;
  if (magnitude == 0 && rule.zero == ZeroSign::lost) return {0};
  if (rule.rounding == Rounding::even) return encode<S>(scaled, rule.overflow);
  return encode_rounded<S>(scaled, rule.rounding, rule.overflow);
}

/// What elements are multiplied by under a scale: its reciprocal, but 0 for FF under
/// InfinityRule::flush and for FE under saturate_flush.
MXO_HD constexpr float factor_of(E8M0 scale, InfinityRule infinity) {
  const bool zero = (scale.bits == 0xFF && infinity == InfinityRule::flush) ||
                    (scale.bits == 0xFE && infinity == InfinityRule::saturate_flush);
  return zero ? 0.0f : reciprocal(scale);
}

/// The same of a block of this amax, which is NaN under ScaleProfile::nan_codes where amax is.
MXO_HD constexpr float factor_of(E8M0 scale, float amax, const ScaleProfile& profile) {
  const bool nan = (bit_cast<std::uint32_t>(amax) & 0x7FFFFFFFu) > 0x7F800000u;
  return nan && profile.nan_codes ? decode(E8M0{0xFF}) : factor_of(scale, profile.infinity);
}

/// code = sat(fl32(x / scale)); a NaN scale makes every code 7F (80 in fnuz).
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> quantize_element(float x, E8M0 scale) {
  return encode<S>(mul_rn(x, reciprocal(scale)), Overflow::saturate);
}

/// The exact product code * scale.  float holds every one of them: the least quantum of an 8-bit
/// code is 2^-17 (e5m2fnuz), of a scale 2^-127, and 2^-144 is above float's 2^-149.  Beyond
/// float's range the product is infinite, also to a caller whose compiler would fuse a sum with it.
template <FormatSpec S>
MXO_HD constexpr float dequantize_f32(Minifloat<S> code, E8M0 scale) {
  const float product = mul_rn(decode(code), decode(scale));
  const auto word = bit_cast<std::uint32_t>(product);
  return (word & 0x7FFFFFFFu) == 0x7F800000u ? bit_cast<float>(word & 0xFF800000u) : product;
}

/// The exact product rounded once to bfloat16.
template <FormatSpec S>
MXO_HD constexpr BF16 dequantize_bf16(Minifloat<S> code, E8M0 scale) {
  return encode<kBF16>(dequantize_f32(code, scale));
}

}  // namespace mxo
