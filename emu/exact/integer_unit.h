// The power of two that makes a run of codes integers whose dot products fit in int32.
#pragma once

#include <cstdint>

#include "formats/host_device.h"

namespace mxo::cpu {

/// 46340^2 < 2^31: K-vectors of at most this norm have dot products that fit, whatever the order
/// (Cauchy-Schwarz holds for the magnitudes of every part of the sum, too).
inline constexpr float kMaxNorm2 = 46340.0f * 46340.0f;

/// The least e such that norm2 <= kMaxNorm2 * 4^e and max_magnitude < 32768 * 2^e; norm2 and
/// max_magnitude are finite and norm2 is at least the true sum of squares.
constexpr int unit_exponent(float norm2, float max_magnitude) {
  if (norm2 == 0.0f) return 0;
  // The quotient is below 2^(field - 126); twice e must be at least that exponent.
  constexpr float kInverse = 1.0f / kMaxNorm2 * (1.0f + 0x1p-20f);
  const auto quotient = bit_cast<std::uint32_t>(norm2 * kInverse);
  const int above = static_cast<int>(quotient >> 23) - 126;
  const int e = (above + 1) >> 1;
  const int top = static_cast<int>(bit_cast<std::uint32_t>(max_magnitude) >> 23) - 126 - 15;
  return e > top ? e : top;
}

/// 2^e as a float and as a double, e in their normal ranges.
constexpr float power_f32(int e) {
  return bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
}
constexpr double power_f64(int e) {
  return bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

/// Sums of at most 256 squares in f32 are off by less than this factor.
inline constexpr float kRoundedUp = 1.0f + 0x1p-10f;

}  // namespace mxo::cpu
