// Exact sums of bytes' products to bf16, a row at a time: joined in f32, with a proved bound of
// what that loses.
#pragma once

#include "emu/cpu/gemm/digits.h"
#include "emu/cpu/gemm/kernels.h"
#include "emu/cpu/gemm/planes.h"

namespace mxo::cpu {

/// Units of lines for which every result but 0 is a normal number of bf16.
inline constexpr int kLeastUnit = -60;
inline constexpr int kMostUnit = 33;

/// Of a pair of panels, what their rests add, in units of both lines: those of A by rows, those of
/// B by columns; what has no bit is not set.
struct RestSums {
  std::uint32_t rows;
  std::uint32_t columns;
  alignas(64) float row[kTileLanes][kMaxLanesB];
  alignas(64) float column[kMaxLanesB][kTileLanes];
};

/// What the rounding in f32 knows of the lines of a panel; docs/numerics.md, "Sums rounded in
/// binary32".  Sums of planes are counted in units of both lines, those of digits in 256 such.
struct LineErrors {
  float most;  ///< no element is larger
  /// Of each line the sum of its rests' magnitudes; of planes 2^-14 of it.
  alignas(64) float rests[kMaxLanesB];
  float lower[kMaxLanesB];  ///< digits: of what its lower ones and their rounding add
  float most_lower;
  alignas(64) std::uint16_t exponent[kMaxLanesB];  ///< of the unit, where bf16 has its exponent
  std::uint32_t nonzero;                           ///< bit of each line that is neither zero nor
                                                   ///< special; all other results are +0
  bool has_rests;

  /// A line in units of 2^unit; the other arguments as the members, in binary64.
  void add_line(int lane, int unit, double of_rests, double of_lower) {
    rests[lane] = static_cast<float>(of_rests * (1.0 + 0x1p-10));
    lower[lane] = static_cast<float>(of_lower);
    most_lower = most_lower < lower[lane] ? lower[lane] : most_lower;
    exponent[lane] = static_cast<std::uint16_t>(unit * 128);
    nonzero |= 1u << lane;
    has_rests = has_rests || of_rests > 0;
  }
};

/// Rows [first, past) of 32 sums each, rounded to bf16.  A row all of whose sums are decided goes
/// to out + row * step, past the caches if `streams`, which wants lines of 64 bytes; another, or
/// all if `out` is null, to left[row], its undecided sums marked in open[row].
struct RoundedRows {
  std::uint16_t* out;
  std::int64_t step;
  bool streams;
  alignas(64) std::uint16_t left[kTileLanes][kMaxLanesB];
  std::uint32_t open[kTileLanes];
};
void round_sums(int first, int past, const DigitSums* halves, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) noexcept;
/// `rests`: what is added to the sums, or null.
void round_sums(int first, int past, const PlaneSums* halves, const RestSums* rests,
                const LineErrors& a, const LineErrors& b, RoundedRows& to) noexcept;

}  // namespace mxo::cpu
