// One f64 to the bits of the output type, rounded once.
#pragma once

#include <cstdint>

#include "formats/dtype.h"

namespace mxo::cpu {

/// binary64 to bf16 in one rounding: by way of f32 rounded to odd, whose last bit tells that
/// something was cut off (16 bits to spare, Boldo and Melquiond's rule wants two).
inline std::uint32_t bf16_bits(double x) {
  const auto nearest = static_cast<float>(x);
  auto bits = bit_cast<std::uint32_t>(nearest);
  const double back = nearest;
  if (back != x) {
    const double magnitude = x < 0 ? -x : x;
    const double found = back < 0 ? -back : back;
    if (found > magnitude) --bits;  // toward zero; infinity becomes the largest float
    bits |= 1u;
  }
  const std::uint32_t kept = bits >> 16;
  const std::uint32_t dropped = bits & 0xFFFFu;
  return kept + (dropped > 0x8000u || (dropped == 0x8000u && (kept & 1u)) ? 1u : 0u);
}

/// The bits of `x` in bf16 or f32; x is no NaN.
inline std::uint32_t rounded_bits(double x, Dtype out) {
  return out == Dtype::f32 ? bit_cast<std::uint32_t>(static_cast<float>(x)) : bf16_bits(x);
}

}  // namespace mxo::cpu
