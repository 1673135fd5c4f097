// FP8 with an f32 scale per block of any extents: the scale from amax, and the code from the scale.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/approximate.h"
#include "formats/dtype.h"
#include "formats/mx_block.h"
#include "formats/rounded_once.h"

namespace mxo {

/// How a block's amax becomes a scale.  The first four give a multiplier s, what x is multiplied
/// by, and store fl32(1 / s), or div_full(1, s) for the one of Triton; the others give a divisor d,
/// and store it.
enum class Quotient : std::uint8_t {
  max_over_amax_f64,      ///< s = f32(f64(max) / f64(amax))
  max_over_amax,          ///< s = fl32(max / amax)
  max_div_full_amax,      ///< s = div_full(max, amax) of formats/approximate.h
  max_times_reciprocal,   ///< s = fl32(max * fl32(1 / amax))
  amax_over_max,          ///< d = fl32(amax / max)
  amax_times_reciprocal,  ///< d = fl32(amax * fl32(1 / max))
};

/// Whether x is multiplied by s.
MXO_HD constexpr bool gives_multiplier(Quotient quotient) {
  return quotient <= Quotient::max_times_reciprocal;
}

/// How s or d becomes a power of two.
enum class PowerOfTwo : std::uint8_t {
  none,
  down,        ///< mantissa cleared (libm's exp2(floor(log2 s)) may differ just below a power)
  up,          ///< mantissa cleared, exponent one more where it was not zero; NaN and Inf stay
  up_clamped,  ///< the same on the bits, exponent field kept in 1 .. 254: NaN and Inf give 2^127
  up_log2,     ///< exp2(ceil(fl32(log2 d))), which leaves a little above a power of two as it is
  down_log2,   ///< exp2(floor(fl32(log2 s))), which takes a little below a power of two to it
};

/// Where amax is raised to epsilon.
enum class AmaxFloor : std::uint8_t {
  after_widening,  ///< max(f64(amax), epsilon)
  in_f32,          ///< max(amax, fl32(epsilon))
  in_x,            ///< the same with epsilon rounded to the type of x: `rule_for` makes it in_f32
};

/// What is stored for an amax that has no quotient.
enum class SpecialAmax : std::uint8_t {
  as_computed,
  one,        ///< scale 1; also where a divisor comes out 0
  no_factor,  ///< a divisor of 0 is stored, and x multiplied by 0
};

/// A multiplier beyond float's range.
enum class TooLarge : std::uint8_t {
  infinite,
  input_max,  ///< the largest finite value of the type of x
  float_max,  ///< of f32
};

/// d is at least 1 / (512 max).
enum class LeastScale : std::uint8_t {
  none,
  before_power,  ///< before it becomes a power of two
  after_power,   ///< afterwards, which makes it none
};

/// How an element becomes a code.
enum class CodeScaling : std::uint8_t {
  multiply,  ///< sat(fl32(x * s)), or sat(fl32(x * fl32(1 / d)))
  divide,    ///< sat(fl32(x / d))
  /// sat(fl32(x * fl32(max / amax))), d is stored only.  With powers of two the factor is 2^-e,
  /// made from its bits: 254 less the exponent field, so that d infinite gives -infinity.
  own_quotient,
  own_reciprocal,    ///< the same with fl32(max * fl32(1 / amax))
  multiply_in_bf16,  ///< as multiply, the product rounded to bf16 before it is a code
  multiply_in_f16,   ///< the same in f16
};

/// Whether the code is that of one rounded product, which is what fast kernels compute.
MXO_HD constexpr bool multiplies_in_f32(CodeScaling how) {
  return how != CodeScaling::divide && how < CodeScaling::multiply_in_bf16;
}

/// Which steps are rounded to the type of x: those of a stack that computes in it.
enum class StepsInX : std::uint8_t {
  none,
  scale,  ///< s or d
  every,  ///< 1 / amax, s and x * s: `rule_for` makes the last a CodeScaling
};

/// What is stored of a multiplier s.
enum class StoredScale : std::uint8_t {
  inverse,     ///< 1 / s, what a code is multiplied by
  multiplier,  ///< s, what a code is divided by
};

/// What one stack does to find the f32 scale of a block and the codes.
///
/// amax of no elements, or of zeros only, is 0; then epsilon decides, and `zero` where amax is
/// still 0.  A NaN that reaches amax (NanRule::propagate) makes the scale and every code NaN,
/// unless power_of_2 is up_clamped.
struct F32ScaleRule {
  Quotient quotient = Quotient::max_over_amax_f64;
  PowerOfTwo power_of_2 = PowerOfTwo::none;
  double epsilon = 1e-12;  ///< floor of amax; from 0 to the largest float
  AmaxFloor floor = AmaxFloor::after_widening;
  NanRule nan = NanRule::propagate;
  SpecialAmax zero = SpecialAmax::as_computed;
  SpecialAmax infinity = SpecialAmax::as_computed;
  TooLarge too_large = TooLarge::infinite;
  CodeScaling code = CodeScaling::multiply;
  double amax_max = 0;  ///< amax is lowered to it; 0: no bound
  LeastScale least = LeastScale::none;
  double power_floor = 0;  ///< d is raised to it before it becomes a power of two
  double fnuz_max = 0;     ///< max of e4m3fnuz where it is not 240
  double max = 0;          ///< max of every format where it is not the format's own
  StepsInX in_x = StepsInX::none;
  Dtype x = Dtype::f32;  ///< the type of x where `in_x` is not none: `rule_for` sets it
  StoredScale stores = StoredScale::inverse;

  friend constexpr bool operator==(const F32ScaleRule&, const F32ScaleRule&) = default;
};

/// What x is multiplied or divided by, and what is stored: a code is multiplied by it to come back,
/// under StoredScale::multiplier divided.
struct F32Scale {
  float factor;
  float stored;
};

MXO_HD constexpr bool is_nan_word(std::uint32_t word) { return (word & 0x7FFFFFFFu) > 0x7F800000u; }
MXO_HD constexpr float quiet_nan() { return bit_cast<float>(0x7FC00000u); }

/// A float rounded to bf16 or f16; as it is for f32.
MXO_HD constexpr float rounded_to(Dtype type, float x) {
  if (type == Dtype::bf16) return decode(encode<kBF16>(x));
  return type == Dtype::f16 ? decode(encode<kF16>(x)) : x;
}

/// 1 / x, rounded; infinite for 0, with its sign.
MXO_HD constexpr float reciprocal_of(float x) {
  const auto word = bit_cast<std::uint32_t>(x);
  if ((word & 0x7FFFFFFFu) == 0) return bit_cast<float>(word | 0x7F800000u);
  return div_rn(1.0f, x);
}

/// A positive finite or infinite scale, or NaN, as a power of two.
MXO_HD constexpr float power_of_two(float scale, PowerOfTwo how) {
  const auto word = bit_cast<std::uint32_t>(scale);
  const std::uint32_t fraction = word & 0x7FFFFFu;
  std::uint32_t field = (word & 0x7FFFFFFFu) >> 23;
  if (how == PowerOfTwo::none) return scale;
  if (how == PowerOfTwo::up_clamped) {
    field += fraction != 0 ? 1 : 0;
    field = field < 1 ? 1 : field > 254 ? 254 : field;
    return bit_cast<float>(field << 23);
  }
  if (field == 0xFF) return scale;
  if (how == PowerOfTwo::down_log2 && field != 0) {
    return bit_cast<float>(static_cast<std::uint32_t>(floor_log2_f32(scale) + 127) << 23);
  }
  if (how == PowerOfTwo::down || how == PowerOfTwo::down_log2)
    return bit_cast<float>(word & 0xFF800000u);
  std::uint32_t lost = 0;
  if (how == PowerOfTwo::up_log2 && field != 0) {
    lost = steps_lost_by_log2(static_cast<int>(field) - 127);
  }
  return bit_cast<float>((field + (fraction > lost ? 1 : 0)) << 23);
}

/// The scale of a block whose largest magnitude is `amax` (joined under rule.nan).
/// `input_max` is the largest finite value of the type of x.
template <FormatSpec S>
MXO_HD constexpr F32Scale f32_scale(float amax, const F32ScaleRule& rule, float input_max) {
  constexpr float largest =
      decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(S.max_finite())});
  const float max = S == kE4M3Fnuz && rule.fnuz_max > 0 ? static_cast<float>(rule.fnuz_max)
                    : rule.max > 0                      ? static_cast<float>(rule.max)
                                                        : largest;
  constexpr std::uint32_t infinity = 0x7F800000u;
  const auto floor = static_cast<float>(rule.epsilon);
  const float raised = amax < floor ? floor : amax;  // a NaN stays
  const auto cap = static_cast<float>(rule.amax_max);
  const float a = cap > 0.0f && raised > cap ? cap : raised;
  const auto word = bit_cast<std::uint32_t>(a);
  const bool odd = (word == 0 && rule.zero == SpecialAmax::one) ||
                   (word == infinity && rule.infinity == SpecialAmax::one);

  float scale = 1.0f;
  if (!odd) {
    switch (rule.quotient) {
      case Quotient::max_over_amax_f64: {
        double wide = a;
        if (rule.floor == AmaxFloor::after_widening) {
          wide = amax;
          wide = wide < rule.epsilon ? rule.epsilon : wide;
          wide = cap > 0.0f && wide > cap ? cap : wide;
        }
        scale = wide == 0.0 ? bit_cast<float>(infinity)
                            : static_cast<float>(div_rn(static_cast<double>(max), wide));
        break;
      }
      case Quotient::max_over_amax:
        scale = word == 0 ? bit_cast<float>(infinity) : div_rn(max, a);
        break;
      case Quotient::max_div_full_amax: scale = div_full(max, a); break;
      case Quotient::max_times_reciprocal:
        scale = mul_rn(max, rule.in_x == StepsInX::every ? rounded_to(rule.x, reciprocal_of(a))
                                                         : reciprocal_of(a));
        break;
      case Quotient::amax_over_max: scale = div_rn(a, max); break;
      case Quotient::amax_times_reciprocal: scale = mul_rn(a, div_rn(1.0f, max)); break;
    }
  }
  if (rule.in_x != StepsInX::none) scale = rounded_to(rule.x, scale);
  if (rule.too_large != TooLarge::infinite && bit_cast<std::uint32_t>(scale) == infinity) {
    scale = rule.too_large == TooLarge::input_max ? input_max : bit_cast<float>(0x7F7FFFFFu);
  }
  const bool divisor = !gives_multiplier(rule.quotient);
  if (divisor && scale == 0.0f && rule.zero == SpecialAmax::one) scale = 1.0f;
  const float least = div_rn(1.0f, 512.0f * max);
  if (rule.least == LeastScale::before_power) scale = scale < least ? least : scale;
  const bool power = rule.power_of_2 != PowerOfTwo::none;
  const auto power_floor = static_cast<float>(rule.power_floor);
  if (power) scale = power_of_two(scale < power_floor ? power_floor : scale, rule.power_of_2);
  if (rule.least == LeastScale::after_power) scale = scale < least ? least : scale;
  if ((bit_cast<std::uint32_t>(scale) & 0x7FFFFFFFu) > infinity) {
    return {quiet_nan(), quiet_nan()};
  }
  if (rule.quotient == Quotient::max_div_full_amax) return {scale, div_full(1.0f, scale)};
  if (rule.stores == StoredScale::multiplier) return {scale, scale};
  if (!divisor) return {scale, reciprocal_of(scale)};
  if (scale == 0.0f && rule.zero == SpecialAmax::no_factor) return {0.0f, scale};
  switch (rule.code) {
    case CodeScaling::divide: return {scale, scale};
    case CodeScaling::multiply:
    case CodeScaling::multiply_in_bf16:
    case CodeScaling::multiply_in_f16: break;
    case CodeScaling::own_quotient:
    case CodeScaling::own_reciprocal: {
      if (power) {
        return {bit_cast<float>((254u - (bit_cast<std::uint32_t>(scale) >> 23)) << 23), scale};
      }
      const float inverse = reciprocal_of(a);
      const float quotient = word == 0 ? inverse : div_rn(max, a);
      return {rule.code == CodeScaling::own_quotient ? quotient : mul_rn(max, inverse), scale};
    }
  }
  return {reciprocal_of(scale), scale};
}

/// The scale of a block by a number that is given: the multiplier s of rules that store 1 / s, else
/// the divisor d, which is stored.  A 0 is divided by as in IEEE 754, whatever `zero` says of amax.
MXO_HD constexpr F32Scale given_scale(float number, const F32ScaleRule& rule) {
  if (is_nan_word(bit_cast<std::uint32_t>(number))) return {quiet_nan(), quiet_nan()};
  if (rule.stores == StoredScale::multiplier) return {number, number};
  if (rule.quotient == Quotient::max_div_full_amax) return {number, div_full(1.0f, number)};
  if (gives_multiplier(rule.quotient)) return {number, reciprocal_of(number)};
  return {rule.code == CodeScaling::divide ? number : reciprocal_of(number), number};
}

/// fl32(x * factor), in bf16 or f16 where `how` says so, or fl32(x / factor).
MXO_HD constexpr float scaled(float x, float factor, CodeScaling how) {
  if (how == CodeScaling::multiply_in_bf16) return rounded_to(Dtype::bf16, mul_rn(x, factor));
  if (how == CodeScaling::multiply_in_f16) return rounded_to(Dtype::f16, mul_rn(x, factor));
  if (how != CodeScaling::divide) return mul_rn(x, factor);
  // As IEEE division: 0 / 0 is NaN, the rest infinite.
  return factor == 0.0f ? mul_rn(x, reciprocal_of(factor)) : div_rn(x, factor);
}

/// code = sat(fl32(x * factor)), or sat(fl32(x / factor)).
template <FormatSpec S>
MXO_HD constexpr Minifloat<S> scale_element(float x, float factor, CodeScaling how) {
  return encode<S>(scaled(x, factor, how), Overflow::saturate);
}

/// The product code * scale, exact but for one rounding to X.
template <typename X, FormatSpec S>
MXO_HD constexpr X dequantize_element(Minifloat<S> code, float scale) {
  const float value = decode(code);
  const float nearest = mul_rn(value, scale);
  if constexpr (std::is_same_v<X, float>) {
    return is_nan_word(bit_cast<std::uint32_t>(nearest)) ? quiet_nan() : nearest;
  } else {
    // 28 bits and any exponent: exact in f64.  A float that is odd where it is not exact rounds
    // once more to what the exact value rounds to.
    const double exact = static_cast<double>(value) * static_cast<double>(scale);
    auto word = bit_cast<std::uint32_t>(nearest);
    const auto held = static_cast<double>(nearest);
    if (held != exact && !is_nan_word(word)) {
      const bool away = word >> 31 != 0 ? held < exact : held > exact;  // by the sign: -0 has one
      word = (away ? word - 1 : word) | 1u;
    }
    return encode<X::spec>(bit_cast<float>(word));
  }
}
template <typename X, FormatSpec S>
MXO_HD constexpr X dequantize_element(Minifloat<S> code, E8M0 scale) {
  return from_float<X>(dequantize_f32(code, scale));
}

/// The largest finite value of an input type.
template <typename X>
MXO_HD constexpr float largest_finite() {
  if constexpr (std::is_same_v<X, float>) return bit_cast<float>(0x7F7FFFFFu);
  return bit_cast<float>(std::is_same_v<X, F16> ? 0x477FE000u : 0x7F7F0000u);
}

}  // namespace mxo
