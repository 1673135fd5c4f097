// Steps that quantisers of several stacks take: amaxes, powers of two, clamps before a cast.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/support/searched_code.h"
#include "tests/support/stack_twins.h"

namespace mxo::test {

inline float fnuz_224(Dtype format) { return format == Dtype::e4m3fnuz ? 224.0f : largest(format); }

/// max(NaN, a) as torch has it: NaN stays.
inline float torch_amax(const Block& b) {
  float amax = 0.0f;
  for (const float x : b.x) {
    if (std::isnan(x)) return x;
    amax = std::max(amax, std::fabs(x));
  }
  return amax;
}
/// As fmaxf has it: NaN is dropped.
inline float cuda_amax(const Block& b, float from = 0.0f) {
  float amax = from;
  for (const float x : b.x) amax = std::fmax(amax, std::fabs(x));
  return amax;
}

/// torch.clamp(min=...) in f32: NaN stays.
inline float torch_at_least(float v, float floor) { return std::isnan(v) || v > floor ? v : floor; }

inline float in_type(float v, Dtype type) {
  if (type == Dtype::bf16) return decode(encode<kBF16>(v));
  return type == Dtype::f16 ? decode(encode<kF16>(v)) : v;
}

inline float up_by_log2(float v) { return std::exp2(std::ceil(std::log2(v))); }
/// exp + (mantissa != 0), by frexp.
inline float up_exactly(float v) {
  if (std::isinf(v) || v == 0.0f) return v;
  int e = 0;
  return std::frexp(v, &e) == 0.5f ? v : std::ldexp(1.0f, e);
}

inline std::uint32_t bits_of(float v) { return bit_cast<std::uint32_t>(v); }

/// torch's cast: no clamp before it.
inline std::uint8_t torch_cast(float v, Dtype f) { return searched_code(v, f, false); }
/// torch.clamp keeps NaN.
inline std::uint8_t torch_clamped(float v, Dtype f, float max) {
  return searched_code(std::isnan(v) ? v : std::min(std::max(v, -max), max), f, false);
}
/// fminf(fmaxf(v, -max), max).
inline std::uint8_t clamped_up_last(float v, Dtype f, float max) {
  return searched_code(std::fmin(std::fmax(v, -max), max), f, false);
}
/// fmaxf(-max, fminf(v, max)).
inline std::uint8_t clamped_down_last(float v, Dtype f, float max) {
  return searched_code(std::fmax(-max, std::fmin(v, max)), f, false);
}
/// The saturating conversion of the chip.
inline std::uint8_t satfinite(float v, Dtype f) { return searched_code(v, f, true); }

template <typename CodeOf>
ScaledCodes with_codes(const Block& b, std::uint32_t scale, CodeOf code_of) {
  ScaledCodes out{scale, {}};
  for (const float x : b.x) out.codes.push_back(code_of(x));
  return out;
}

}  // namespace mxo::test
