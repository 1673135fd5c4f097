// One MX block: the definition of quantise and dequantise, element by element.
#pragma once

#include "formats/minifloat.h"
#include "formats/mx_scale.h"
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

/// code = sat(fl32(x / scale)); a NaN scale makes every code 7F (80 in fnuz).
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> quantize_element(float x, E8M0 scale) {
  return encode<S>(x * reciprocal(scale), Overflow::saturate);
}

/// The exact product code * scale.  float holds every one of them: the least quantum of an 8-bit
/// code is 2^-17 (e5m2fnuz), of a scale 2^-127, and 2^-144 is above float's 2^-149.  Beyond
/// float's range the product is infinite, also to a caller whose compiler would fuse a sum with it.
template <FormatSpec S>
MXO_HD constexpr float dequantize_f32(Minifloat<S> code, E8M0 scale) {
  const float product = decode(code) * decode(scale);
  const auto word = bit_cast<std::uint32_t>(product);
  return (word & 0x7FFFFFFFu) == 0x7F800000u ? bit_cast<float>(word & 0xFF800000u) : product;
}

/// The exact product rounded once to bfloat16.
template <FormatSpec S>
MXO_HD constexpr BF16 dequantize_bf16(Minifloat<S> code, E8M0 scale) {
  return encode<kBF16>(dequantize_f32(code, scale));
}

}  // namespace mxo
