// The scale of the next step from an amax of steps before.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/rounded_once.h"
#include "formats/scaled_block.h"

namespace mxo {

/// max of a format * 2^-margin, rounded.
template <FormatSpec S>
MXO_HD constexpr float scaled_max(int margin) {
  double max = decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(S.max_finite())});
  for (; margin > 0; --margin) max *= 0.5;
  for (; margin < 0; ++margin) max *= 2.0;
  return static_cast<float>(max);
}

/// max / amax where that is a number: the old scale for an amax of 0, infinity or NaN, the largest
/// float where the quotient overflows.
MXO_HD constexpr float next_scale(float amax, float scale, float max) {
  constexpr std::uint32_t infinity = 0x7F800000u;
  const auto word = bit_cast<std::uint32_t>(amax);
  float next = scale;
  if (word > 0 && word < infinity) next = div_rn(max, amax);
  return (bit_cast<std::uint32_t>(next) & 0x7FFFFFFFu) == infinity ? bit_cast<float>(0x7F7FFFFFu)
                                                                   : next;
}

static_assert(next_scale(0.0f, 3.0f, 448.0f) == 3.0f);

}  // namespace mxo
