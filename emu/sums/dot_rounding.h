// The result of a fused sum: an integer at a power of two, rounded to the accumulator's format.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/sums.h"

namespace mxo {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The range of a step's result.  Ten mantissa bits mean binary16, held in an f32 word.
struct StepRange {
  int min_exponent;
  int max_exponent;
};
MXO_HD constexpr StepRange step_range(int mantissa) {
  return mantissa == 10 ? StepRange{-14, 15} : StepRange{-126, 127};
}

/// Bits up to the leading one.  std::bit_width is host code: nvcc gives a wrong one on devices.
MXO_HD constexpr int width_of(std::uint64_t x) {
  int width = 0;
  for (int step = 32; step > 0; step /= 2) {
    if (x >> step == 0) continue;
    x >>= step;
    width += step;
  }
  return width + (x != 0 ? 1 : 0);
}

/// `magnitude` without its low `shift` bits, rounded as asked.
MXO_HD inline std::uint64_t drop_bits(std::uint64_t magnitude, int shift, StepRounding rounding) {
  if (shift <= 0) return magnitude << -shift;
  if (shift >= 64) return 0;  // sums stay below 2^62, half a step is 2^63
  const std::uint64_t kept = magnitude >> shift;
  if (rounding == StepRounding::toward_zero) return kept;
  const std::uint64_t rest = magnitude - (kept << shift);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

/// total * 2^quantum in the accumulator's format.  Subnormals are kept; a magnitude of
/// 2^(max_exponent + 1) or more is infinite under either rounding; every zero is +0.
MXO_HD inline float round_step(std::int64_t total, int quantum, StepRounding rounding,
                               int mantissa) {
  if (total == 0) return 0.0f;
  const std::uint64_t magnitude = static_cast<std::uint64_t>(total < 0 ? -total : total);
  const StepRange range = step_range(mantissa);
  const int exponent = width_of(magnitude) - 1 + quantum;
  const int step = (exponent > range.min_exponent ? exponent : range.min_exponent) - mantissa;
  const std::uint64_t kept = drop_bits(magnitude, step - quantum, rounding);
  if (kept == 0) return 0.0f;
  // kept has at most mantissa + 2 bits, so that these steps are exact.
  const double value = std::ldexp(static_cast<double>(kept), step);
  const bool overflow = value >= std::ldexp(1.0, range.max_exponent + 1);
  const float result = overflow ? kInfinity : static_cast<float>(value);
  return total < 0 ? -result : result;
}

}  // namespace mxo
