// The scales of MX blocks, one block per lane.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/lanes/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

template <typename Mask>
HWY_INLINE I one_where(Mask where) {
  return hn::IfThenElseZero(where, all(1));
}

/// shared_scale, one block per lane; floor_amax of what bf16 or f16 holds.
template <FormatSpec S>
HWY_INLINE I scale_lanes(I amax, const MxRule& rule) {
  constexpr int emax = S.max_exponent();
  constexpr int m = S.mantissa_bits;
  constexpr int top = S.max_finite() & ((1 << m) - 1);
  const I fraction_mask = all(0x7FFFFF);
  I code = all(0);
  if (rule.profile.exponent == ExponentRule::floor_amax) {
    code = shift_right<23>(amax);
  } else if (rule.mode == ScaleMode::rceil && rule.profile.descale != Descale::exact) {
    constexpr float max_value =
        decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(S.max_finite())});
    constexpr float inverse = max_reciprocal<S>();
    const I descale = bits(rule.profile.descale == Descale::division
                               ? hn::Div(floats(amax), hn::Set(kFloats, max_value))
                               : hn::Mul(floats(amax), hn::Set(kFloats, inverse)));
    const I field = shift_right<23>(descale);
    // Above the code `field`; code 0 stands for 2^-127, the fraction 0x400000.
    const I floor = hn::IfThenElseZero(hn::Gt(all(1), field), all(0x400000));
    code = hn::Add(field, one_where(hn::Gt(hn::And(descale, fraction_mask), floor)));
  } else if (rule.mode == ScaleMode::rceil) {
    const I above = one_where(hn::Gt(hn::And(amax, fraction_mask), all(top << (23 - m))));
    code = hn::Add(shift_right<23>(amax), hn::Sub(above, all(emax)));
  } else if (rule.mode == ScaleMode::floor && rule.profile.floor == FloorRule::multiply) {
    code = shift_right<23>(bits(hn::Mul(floats(amax), floats(all((127 - emax) << 23)))));
  } else {
    I field = shift_right<23>(amax);
    if (rule.mode == ScaleMode::even) {
      field = shift_right<23>(hn::Add(amax, all(1 << (22 - m))));
    } else if (rule.mode == ScaleMode::ceil) {
      field = hn::Add(field, one_where(hn::Gt(hn::And(amax, fraction_mask), all(0))));
    }
    code = hn::Sub(field, all(emax));
    if (rule.mode == ScaleMode::even) {
      code = hn::IfThenElse(hn::Gt(field, all(0xFE)), all(0xFF), code);
    }
  }
  code = hn::Max(code, all(0));
  const I infinite = all(rule.profile.infinity == InfinityRule::nan ? 0xFF : 0xFE);
  code = hn::IfThenElse(hn::Gt(amax, all(0x7F7FFFFF)), infinite, code);
  return hn::IfThenElse(hn::Gt(amax, all(0x7F800000)), all(0xFF), code);
}

/// 2^(127 - code) of scale codes; FF gives NaN.
HWY_API F reciprocal_lanes(I code) {
  const I power = hn::ShiftLeft<23>(hn::Sub(all(254), code));
  const I least = hn::IfThenElse(hn::Gt(code, all(253)), all(0x00400000), power);
  return floats(hn::IfThenElse(hn::Gt(code, all(254)), all(0x7FC00000), least));
}

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
