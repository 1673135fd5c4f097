// Scales, experts and orders that need no file, as formats/inputs.h has values.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include "formats/host_device.h"
#include "formats/philox.h"

namespace mxo::inputs {

/// A scale's exponent, -4 to 4.
MXO_HD constexpr int scale_exponent(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  return static_cast<int>(philox(index, stream, seed).word[0] % 9) - 4;
}

/// The experts of token `token`, `top_k` different ones of `experts`; if `hot`, half of the choices
/// go to the first eighth of them.  An expert that is taken gives way to the next that is not.
MXO_HD constexpr void choose_experts(std::uint64_t seed, std::uint32_t stream, std::uint64_t token,
                                     int experts, int top_k, bool hot, std::int32_t* chosen) {
  const int few = experts < 8 ? 1 : experts / 8;
  for (int slot = 0; slot < top_k; ++slot) {
    const PhiloxWords pick = philox(token, stream, seed, static_cast<std::uint32_t>(slot));
    const int among = hot && pick.word[1] % 2 == 0 ? few : experts;
    auto expert = static_cast<std::int32_t>(pick.word[0] % static_cast<std::uint32_t>(among));
    for (int before = 0; before < slot; ++before) {
      if (chosen[before] != expert) continue;
      expert = (expert + 1) % experts;
      before = -1;
    }
    chosen[slot] = expert;
  }
}

/// Entry `index` of a permutation of 0 to `count` - 1, below 2^31.
MXO_HD constexpr std::uint64_t order_entry(std::uint64_t seed, std::uint32_t stream,
                                           std::uint64_t index, std::uint64_t count) {
  return (index * 2654435761u + philox(0, stream, seed).word[0]) % count;
}

}  // namespace mxo::inputs
