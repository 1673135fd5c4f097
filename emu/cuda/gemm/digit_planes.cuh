// Lines of the exact product as integers, written in signed digits of eight bits.
//
// A line gets a quantum q and becomes integers v: an element is v * 2^q and a rest of at most half
// a quantum.  Where the line allows it, q is the last place of its least set bit and there are no
// rests.  v is written as d0 + 256 d1 + 256^2 d2 + .., each digit in [-128, 127]; plane n holds
// digit n of all elements, as int8.
#pragma once

#include "emu/cuda/gemm/line_memory.cuh"

namespace mxo::cuda {

/// Digits that lines of any problem have at most.
inline constexpr int kMostDigits = 5;
/// Longest line: sums of three neighbouring digits' products stay below 2^53.
inline constexpr Index kMostLength = Index{1} << 20;

/// What is known of a line; all but `quantum` and `digits` in units of 2^q.
struct LineWindow {
  std::int32_t quantum;  ///< q
  std::int32_t digits;   ///< that its integers need; 0 for a line of zeros, kBeyond for none
  float norm;            ///< at least the Euclidean norms of the line and of its integers
  float peak;            ///< at least the magnitude of every element and of every integer
  float rest;            ///< at least the Euclidean norm of the rests; 0: there are none
  float rest_sum;        ///< at least the sum of their magnitudes
};
/// Digits of a line with a NaN or an infinity, or of more than kMostLength elements.
inline constexpr std::int32_t kBeyond = kMostDigits + 1;

/// At least the difference between the product of two lines and that of their integers.
__device__ inline float product_of_rests(const LineWindow& a, const LineWindow& b) {
  const float of_a = fminf(a.rest * b.norm, a.rest_sum * b.peak);
  const float of_b = fminf(b.rest * a.norm, b.rest_sum * a.peak);
  return (of_a + of_b) * 1.0001f;
}

/// Planes of all lines of a factor.
struct DigitPlanes {
  LineMemory codes;                    ///< what they were made of
  LineMemory memory;                   ///< of plane 0, bytes; plane n starts n * group_bytes later
  int depth = 0;                       ///< planes that there is memory for
  const LineWindow* window = nullptr;  ///< of every line: g * lines + i
  const std::int32_t* most_digits = nullptr;  ///< that any of its lines needs, on the device
};

/// Memory that DigitPlanes refers to.
struct DigitPlaneScratch {
  std::optional<Scratch<std::uint8_t>> codes;
  std::optional<Scratch<std::uint8_t>> planes;
  std::optional<Scratch<LineWindow>> window;
  std::optional<Scratch<std::int32_t>> most_digits;
};

/// Takes `f` apart; `lines` of each group (rows of all groups, where lines are rows).
DigitPlanes make_digit_planes(DeviceBackend& backend, const Problem& p, const Factor& f,
                              Index lines, DigitPlaneScratch& scratch);

}  // namespace mxo::cuda
