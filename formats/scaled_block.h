// FP8 with an f32 scale per row, per column of a group or per 128-block: the scale from amax.
#pragma once

#include <string_view>

#include "formats/mx_block.h"

namespace mxo {

/// Where a recipe puts amax, and what it makes of the values that are no magnitude.
///
/// f64_divide (torchao, torch reference of the row-wise and block-wise casts):
///   s = f32(f64(max) / max(f64(amax), epsilon))
///   zero, no rows  amax = 0, so s comes from epsilon: 448e12, with a power of two 2^48
///   NaN            reaches amax (torch.amax); s, every code and the stored scale are NaN
///   Inf            s = 0: finite x gives a signed zero, Inf * 0 a NaN code; stored +Inf
///
/// f32_divide (TransformerEngine blockwise kernels; FP8-Flow runs the same code):
///   s = fl32(max / amax), amax first raised to fl32(epsilon)
///   zero           with epsilon 0: s = 1, stored 1
///   NaN            is skipped by fmax; the element alone becomes a NaN code
///   Inf            s = 1: infinities saturate, the rest is cast as it is
///   tiny amax      a quotient that overflows becomes the largest finite value of the type of x
///
/// power_of_2 then clears the mantissa of s, which is floor to a power of two (libm's
/// exp2(floor(log2 s)) may differ just below one).  A NaN stays a NaN.
struct F32ScaleRule {
  enum class Kind : std::uint8_t { f64_divide, f32_divide };
  Kind kind = Kind::f64_divide;
  bool power_of_2 = false;
  double epsilon = 1e-12;  ///< floor of amax; from 0 to the largest float

  MXO_HD constexpr NanRule nan() const {
    return kind == Kind::f64_divide ? NanRule::propagate : NanRule::ignore;
  }
  friend constexpr bool operator==(const F32ScaleRule&, const F32ScaleRule&) = default;
};

/// torchao row-wise training (pytorch/ao 36027d8, fp8_grouped_mm.py).
inline constexpr F32ScaleRule kTorchaoRowwise{F32ScaleRule::Kind::f64_divide, true, 1e-12};
/// torchao block-wise training (pytorch/ao 36027d8, blockwise_fp8_training).  Its Triton kernels
/// raise amax to epsilon before they widen it: another last bit where amax is below 1e-12.
inline constexpr F32ScaleRule kTorchaoBlockwise{F32ScaleRule::Kind::f64_divide, false, 1e-12};
/// TransformerEngine Float8BlockScaling (d0067d0): power of two, epsilon 0.
inline constexpr F32ScaleRule kTeBlockwise{F32ScaleRule::Kind::f32_divide, true, 0.0};
/// FP8-Flow-MoE (4c097bf3): TransformerEngine's kernel with amax raised to 1e-10.
inline constexpr F32ScaleRule kFlowBlockwise{F32ScaleRule::Kind::f32_divide, true, 1e-10};

struct NamedScaleRule {
  std::string_view name;
  F32ScaleRule rule;
  std::string_view source;
};

inline constexpr NamedScaleRule kBlockwiseProfiles[] = {
    {"torchao", kTorchaoBlockwise, "pytorch/ao 36027d8, blockwise_fp8_training; read"},
    {"te", kTeBlockwise, "TransformerEngine d0067d0, Float8BlockScaling; read"},
    {"flow", kFlowBlockwise, "TransformerEngine-FP8FlowMoe 4c097bf3; read"},
};

/// What x is multiplied by, and what a code is multiplied by to come back: fl32(1 / multiplier).
struct F32Scale {
  float multiplier;
  float stored;
};

/// The scale of a block whose largest magnitude is `amax` (joined under rule.nan()).
/// `input_max` is the largest finite value of the type of x.
template <FormatSpec S>
MXO_HD constexpr F32Scale f32_scale(float amax, const F32ScaleRule& rule, float input_max) {
  constexpr float max =
      decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(S.max_finite())});
  constexpr std::uint32_t infinity = 0x7F800000u;
  float s = 1.0f;
  if (rule.kind == F32ScaleRule::Kind::f64_divide) {
    const double a = amax;
    s = static_cast<float>(static_cast<double>(max) / (a < rule.epsilon ? rule.epsilon : a));
  } else {
    const auto floor = static_cast<float>(rule.epsilon);
    const float a = amax < floor ? floor : amax;
    const auto word = bit_cast<std::uint32_t>(a);
    if (word != 0 && word < infinity) s = max / a;
    if (bit_cast<std::uint32_t>(s) == infinity) s = input_max;
  }
  std::uint32_t word = bit_cast<std::uint32_t>(s);
  if ((word & 0x7FFFFFFFu) > infinity) {
    const float nan = bit_cast<float>(0x7FC00000u);
    return {nan, nan};
  }
  if (rule.power_of_2) word &= 0xFF800000u;
  const float multiplier = bit_cast<float>(word);
  return {multiplier, word == 0 ? bit_cast<float>(infinity) : 1.0f / multiplier};
}

/// code = sat(fl32(x * multiplier)).
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> scale_element(float x, float multiplier) {
  return encode<S>(x * multiplier, Overflow::saturate);
}

/// The largest finite value of an input type.
template <typename X>
MXO_HD constexpr float largest_finite() {
  return bit_cast<float>(std::is_same_v<X, float> ? 0x7F7FFFFFu : 0x7F7F0000u);
}

static_assert(f32_scale<kE4M3>(0.0f, kTorchaoRowwise, 1.0f).multiplier == 0x1p48f);
static_assert(f32_scale<kE4M3>(0.0f, kTeBlockwise, 1.0f).stored == 1.0f);
static_assert(f32_scale<kE4M3>(449.0f, kTeBlockwise, 1.0f).multiplier == 0.5f);

}  // namespace mxo
