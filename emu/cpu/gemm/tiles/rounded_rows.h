// Exact sums of bytes' products to bf16, a row at a time: joined in f32, with a proved bound of
// what that loses.
#pragma once

#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/kernels/kernels.h"

namespace mxo::cpu {

/// Units of lines for which every result but 0 is a normal number of bf16.
inline constexpr int kLeastUnit = -60;
inline constexpr int kMostUnit = 33;

/// What the rounding in f32 knows of the lines of a panel; docs/numerics.md, "Sums rounded in
/// binary32".  Sums of planes are counted in units of both lines, those of digits in 256 such.
struct LineErrors {
  float most;                           ///< no element is larger
  alignas(64) float rests[kMaxLanesB];  ///< of each line the sum of their magnitudes; bf16: what
                                        ///< its small elements lose in units of `lower`'s product
  /// Digits: of what its lower ones and their rounding add; bf16: a last place of sums.
  alignas(64) float lower[kMaxLanesB];
  float most_lower;
  alignas(64) std::uint16_t exponent[kMaxLanesB];  ///< of the unit, where bf16 has its exponent
  std::uint32_t nonzero;                           ///< bit of each line that is neither zero nor
                                                   ///< special; all other results are +0
  std::uint32_t with_rests;                        ///< bit of each line that has some

  /// A line in units of 2^unit; the other arguments as the members, in binary64.
  void add_line(int lane, int unit, double of_rests, double of_lower) {
    rests[lane] = static_cast<float>(of_rests * (1.0 + 0x1p-10));
    lower[lane] = static_cast<float>(of_lower);
    most_lower = most_lower < lower[lane] ? lower[lane] : most_lower;
    exponent[lane] = static_cast<std::uint16_t>(unit * 128);
    nonzero |= 1u << lane;
    if (of_rests > 0) with_rests |= 1u << lane;
  }
};

/// Rows [first, past) of 32 sums each, rounded to bf16.  A row all of whose sums are decided goes
/// to out + row * step, past the caches if `streams`, which wants lines of 64 bytes; another, or
/// all if `out` is null, to left[row], its undecided sums marked in open[row].
struct RoundedRows {
  std::uint16_t* out;
  std::int64_t step;
  bool streams;
  std::uint32_t rows_left;  ///< bit of each that is in `left`
  alignas(64) std::uint16_t left[kTileLanes][kMaxLanesB];
  std::uint32_t open[kTileLanes];
};
void round_sums(int first, int past, const DigitSums* halves, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) noexcept;
class PlanePair;
void round_sums(int first, int past, const PlanePair& pair, RoundedRows& to) noexcept;

}  // namespace mxo::cpu
