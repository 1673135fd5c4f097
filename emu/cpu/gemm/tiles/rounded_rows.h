// Exact sums of bytes' products to bf16, a row at a time: recombined in f32, with a proved bound of
// what that loses.
#pragma once

#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/kernels/kernels.h"

namespace mxo::cpu {

/// Units of K-vectors for which every result but 0 is a normal number of bf16.
inline constexpr int kMinUnit = -60;
inline constexpr int kMaxUnit = 33;

/// What the rounding in f32 knows of the K-vectors of a panel; docs/numerics.md, "Sums rounded in
/// binary32".  Sums of two slices are counted in units of both K-vectors, those of three in 256
/// such.
struct KVectorErrors {
  float max_magnitude;  ///< no element is larger
  alignas(
      64) float residuals[kMaxNr];  ///< of each K-vector the sum of their magnitudes; bf16: what
                                    ///< its small elements lose in units of `lower`'s product
  /// Three slices: of what the lower ones and their rounding add; bf16: a last place of sums.
  alignas(64) float lower[kMaxNr];
  float max_lower;
  alignas(64) std::uint16_t exponent[kMaxNr];  ///< of the unit, where bf16 has its exponent
  std::uint32_t nonzero;                       ///< bit of each K-vector that is neither zero nor
                                               ///< special; all other results are +0
  std::uint32_t with_residuals;                ///< bit of each K-vector that has some

  /// A K-vector in units of 2^unit; the other arguments as the members, in binary64.
  void add_k_vector(int lane, int unit, double of_residuals, double of_lower) {
    residuals[lane] = static_cast<float>(of_residuals * (1.0 + 0x1p-10));
    lower[lane] = static_cast<float>(of_lower);
    max_lower = max_lower < lower[lane] ? lower[lane] : max_lower;
    exponent[lane] = static_cast<std::uint16_t>(unit * 128);
    nonzero |= 1u << lane;
    if (of_residuals > 0) with_residuals |= 1u << lane;
  }
};

/// Rows [first, end) of 32 sums each, rounded to bf16.  A row all of whose sums passed the rounding
/// test goes to out + row * step, around the caches if `streams`, which wants lines of 64 bytes;
/// another, or all if `out` is null, to left[row], its failed sums marked in failed[row].
struct RoundedRows {
  std::uint16_t* out;
  std::int64_t step;
  bool streams;
  std::uint32_t rows_left;  ///< bit of each that is in `left`
  alignas(64) std::uint16_t left[kTileLanes][kMaxNr];
  std::uint32_t failed[kTileLanes];
};
void round_sums(int first, int end, const ThreeSliceSums* halves, const KVectorErrors& a,
                const KVectorErrors& b, RoundedRows& to) noexcept;
class TwoSlicePair;
void round_sums(int first, int end, const TwoSlicePair& pair, RoundedRows& to) noexcept;

}  // namespace mxo::cpu
