// Lines of the exact product as integers, written in signed digits of seven bits.
//
// A line gets a quantum q such that every element is v * 2^q, v an integer: q is the last place of
// its least set bit.  v is written as d0 + 128 d1 + 128^2 d2 + 128^3 d3, each digit in [-64, 63].
// A plane holds one digit of all elements, or the sum of two (in [-128, 126]), as int8.
#pragma once

#include "emu/cuda/gemm/line_memory.cuh"

namespace mxo::cuda {

inline constexpr int kMostDigits = 4;
/// Planes in memory: digits 0, 1, 2, their sums 0+1, 0+2, 1+2; digit 3, the sums 0+3, 1+3, 2+3.
inline constexpr int kThreeDigitPlanes = 6;
inline constexpr int kPlanes = 10;

/// What is known of a line.
struct LineWindow {
  std::int32_t quantum;  ///< q
  std::int32_t digits;  ///< that its integers need; 0 for a line of zeros, kBeyond for none of this
  float norm;           ///< at least the Euclidean norm of its integers
  std::int32_t unused;
};
inline constexpr std::int32_t kBeyond = kMostDigits + 1;

/// True if the sum of the products of two lines is below 2^62 and both are in planes.
__device__ inline bool in_integers(const LineWindow& a, const LineWindow& b) {
  return a.digits < kBeyond && b.digits < kBeyond &&
         static_cast<double>(a.norm) * static_cast<double>(b.norm) < 0x1p62;
}

/// Planes of all lines of a factor.
struct DigitPlanes {
  LineMemory memory;                   ///< of plane 0, bytes; plane p starts p * group_bytes later
  const LineWindow* window = nullptr;  ///< of every line: g * lines + i
  const std::int32_t* most_digits = nullptr;  ///< that any of its lines needs, on the device
};

/// Memory that DigitPlanes refers to.
struct DigitPlaneScratch {
  std::optional<Scratch<std::uint8_t>> planes;
  std::optional<Scratch<LineWindow>> window;
  std::optional<Scratch<std::int32_t>> most_digits;
};

/// Takes `f` apart; `lines` of each group (rows of all groups, where lines are rows).
DigitPlanes make_digit_planes(DeviceBackend& backend, const Problem& p, const Factor& f,
                              Index lines, DigitPlaneScratch& scratch);

}  // namespace mxo::cuda
