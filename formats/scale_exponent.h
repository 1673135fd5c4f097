// Exponents of e8m0 scales by the rules of stacks that take a logarithm.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>

#include "formats/format_spec.h"
#include "formats/host_device.h"
#include "formats/rounded_once.h"
#include "formats/scale_profile.h"

namespace mxo {

/// x = (1 + fraction 2^-23) 2^exponent.
struct Normalised {
  int exponent;
  std::uint32_t fraction;
};
/// Of a positive finite float, subnormal ones too.
MXO_HD constexpr Normalised normalised(float x) {
  auto word = bit_cast<std::uint32_t>(x);
  int exponent = static_cast<int>(word >> 23) - 127;
  if (word >> 23 == 0) {
    exponent = -126;
    while (word >> 23 == 0) {
      word <<= 1;
      --exponent;
    }
  }
  return {exponent, word & 0x7FFFFFu};
}

/// How many steps of 2^-24 below 2^exponent have a logarithm that rounds to `exponent` in f32:
/// log2(1 - n 2^-24) is -n / ln 2 steps of 2^-24, and half the spacing of floats beside `exponent`
/// is 2^e of them.
MXO_HD constexpr std::uint32_t steps_gained_by_log2(int exponent) {
  int magnitude = exponent > 0 ? exponent - 1 : -exponent;  // the binade log2 lies in, below it
  int e = 0;
  for (; magnitude > 1; magnitude >>= 1) ++e;
  constexpr double kLn2 = 0.693147180559945309;
  return static_cast<std::uint32_t>(static_cast<double>(1u << e) * kLn2);
}

/// How many steps of 2^-23 above 2^exponent have a logarithm that rounds to `exponent` in f32:
/// log2(1 + n 2^-23) is n / ln 2 steps of 2^-23, and half the spacing of floats beside `exponent`
/// is 2^(e - 1) of them.
MXO_HD constexpr std::uint32_t steps_lost_by_log2(int exponent) {
  int magnitude = exponent < 0 ? -exponent - 1 : exponent;  // the binade log2 lies in, above it
  int e = 0;
  for (; magnitude > 1; magnitude >>= 1) ++e;
  constexpr double kLn2 = 0.693147180559945309;
  return static_cast<std::uint32_t>(static_cast<double>(1u << e) * 0.5 * kLn2);
}

/// floor(fl32(log2 x)) of a positive finite float.
MXO_HD constexpr int floor_log2_f32(float x) {
  const Normalised n = normalised(x);
  const std::uint32_t below = 0x800000u - n.fraction;  // steps to the next power of two
  return below <= steps_gained_by_log2(n.exponent + 1) ? n.exponent + 1 : n.exponent;
}
/// ceil(fl32(log2 x)) of a positive finite float.
MXO_HD constexpr int ceil_log2_f32(float x) {
  const Normalised n = normalised(x);
  return n.fraction > steps_lost_by_log2(n.exponent) ? n.exponent + 1 : n.exponent;
}

/// The exponent of the scale of a block whose largest magnitude is `amax`, finite, by a rule that
/// leaves ScaleMode no choice.  May lie outside of e8m0.
template <FormatSpec S>
MXO_HD constexpr int scale_exponent(float amax, ExponentRule rule) {
  constexpr int kLeast = -127;
  constexpr int emax = S.max_exponent();
  constexpr int top = S.max_finite() & ((1 << S.mantissa_bits) - 1);
  constexpr float max = static_cast<float>((1 << S.mantissa_bits) + top) *
                        static_cast<float>(1 << (emax - S.mantissa_bits));
  const float quotient = div_rn(amax, max);
  switch (rule) {
    case ExponentRule::floor_quotient: return quotient > 0.0f ? floor_log2_f32(quotient) : 0;
    case ExponentRule::nearest_quotient: {
      if (quotient == 0.0f) return kLeast;
      constexpr std::uint32_t below_root_of_2 = 0x3504F3u;
      const Normalised n = normalised(quotient);
      return n.exponent + (n.fraction > below_root_of_2 ? 1 : 0);
    }
    case ExponentRule::ceil_quotient: return quotient > 0.0f ? ceil_log2_f32(quotient) : kLeast;
    case ExponentRule::floor_amax: return amax == 0.0f ? kLeast : floor_log2_f32(amax);
    case ExponentRule::floor_log2: return amax == 0.0f ? kLeast : floor_log2_f32(amax) - emax;
    case ExponentRule::quarter: {
      const std::uint32_t raised = bit_cast<std::uint32_t>(amax) + 0x200000u;
      return raised >= 0x7F800000u ? 127 : static_cast<int>(raised >> 23) - 127 - emax;
    }
    case ExponentRule::by_mode: break;
  }
  return kLeast;
}

}  // namespace mxo
