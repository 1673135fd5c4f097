// The panels of Engine::digits: a line as integers of 24 bits times one unit, each integer
// 65536 d2 + 256 d1 + d0 with digits of signed bytes, so that a product of integers is nine of
// bytes.
//
// A panel of A is [chunk][plane][lane][64]: tiles of 16 lanes by 64 elements, plane i that of d_i.
// A panel of B is [half][chunk][plane][16][16 lanes][4]: tiles of 64 elements by 16 lanes, four
// neighbours in a dword.  Within a chunk elements lie in the order of digit_place.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/gemm/engines/two_slices/two_slices.h"

namespace mxo::cpu {

inline constexpr int kDigits = 3;
inline constexpr int kDigitSums = 2 * kDigits - 1;
inline constexpr int kDigitChunkBytes = kDigits * kTileBytes;
/// A sum of 3 products of signed bytes for each element stays below 2^31.
inline constexpr std::int64_t kMostDigitDepth = 32768;
/// No digit leaves [-128, 127].
inline constexpr int kMostDigitInteger = 0x7F7F7F;
/// Chunks of B whose half is multiplied at once: it stays in the first cache beside A's.
inline constexpr int kDigitSpanChunks = 8;

/// Where element c of a chunk lies among its 64.
constexpr int digit_place(int c) { return c % 16 / 4 * 16 + c / 16 * 4 + c % 4; }

/// Sum i is that of all d_j e_(i-j), [16][16].
using DigitSums = std::int32_t[kDigitSums][kTileLanes][kTileLanes];

/// Where the digits of a run of one line go.
struct DigitTarget {
  std::int8_t* first;
  int plane_step;
  int chunk_step;
};

/// What the runs of a line amount to; a new one for each line.
struct DigitTally {
  float squares[16] =
      {};  ///< their sum, raised by 2^-10, is at least that of the integers' and rests'
  std::uint64_t rest[2];  ///< of the last run, bit c: element c is no integer
};

/// The first chunks of a run of a line; the integers are those of x * 2^exponent, cut toward zero.
void encode_digits(int chunks, const float* x, int exponent, const DigitTarget& to,
                   DigitTally& tally) noexcept;
/// 32 lanes of [lane][kRun] digits of one plane to the first tiles of a run of B; halves lie
/// `half_step` bytes apart.
void turn_digits(int plane, int chunks, const std::int8_t* lines, std::int8_t* run_b,
                 std::int64_t half_step) noexcept;

/// What Kernels::add_digits does, in plain C++.
void portable_add_digits(int chunks, const std::int8_t* a, const std::int8_t* b, bool more,
                         DigitSums& sums) noexcept;

}  // namespace mxo::cpu
