// The inner loops of the products, one table per instruction set.
#pragma once

#include <cstdint>

#include "emu/cpu/isa.h"
#include "emu/exact/code_tables.h"

namespace mxo::cpu {

inline constexpr int kMaxMr = 16;  ///< max MR: K-vectors of a panel of A
inline constexpr int kMaxNr = 32;  ///< max NR: K-vectors of a panel of B
inline constexpr int kBlock = 32;  ///< contracted elements of a block
inline constexpr int kRunBlocks = 4;
inline constexpr int kRun = kBlock * kRunBlocks;  ///< elements of a run, the unit of packing
inline constexpr int kPairs = kBlock / 2;         ///< int16 pairs of a block
inline constexpr int kRunPairs = kRun / 2;

// Engines of tile registers.
inline constexpr int kTileBytes = 1024;
inline constexpr int kChunk = 64;  ///< elements of a tile along the contracted axis
inline constexpr int kChunks = kRun / kChunk;
inline constexpr int kTileLanes = 16;
inline constexpr int kSpanRuns = 4;
inline constexpr int kSpanBlocks = kSpanRuns * kRunBlocks;
inline constexpr int kSpanChunks = kSpanRuns * kChunks;
inline constexpr int kSlices = 3;  ///< max slices of an element

/// One K-vector's run as integers: element c is (integer + residual) * 2^exponent, |residual| < 1,
/// the residual of the same sign and kept only where it is not zero.
struct EncodedRun {
  int exponent[kRunBlocks] = {};     ///< of each block; a joint run has the same four times
  float norm2[kRunBlocks] = {};      ///< sum of squares of each block's factor * code, rounded up
  std::uint64_t residual[2] = {};    ///< bit c: element c has a residual
  std::uint8_t min_magnitude = 255;  ///< min nonzero magnitude code minus 1; 255: none
  bool special = false;              ///< holds a NaN or an infinity; the integers are zero
};

/// The residual of one element; `value` is already multiplied by the scale.
struct Residual {
  double value;
  std::uint32_t lane;
  std::uint32_t at;  ///< in the kc block
};

/// What the rounding test of a row of outputs needs about its K-vector; ColumnEnds holds the same
/// for the columns, as arrays.
struct RowEnd {
  double reach;  ///< norm / quantum: sums of reach_a * reach_b <= 2^53 quanta are exact
  double norm;  ///< upper bound of the K-vector's Euclidean norm; infinite: the rounding test fails
  double roundings;  ///< max number of them, each off by at most 2^-53 * norm_a * norm_b
  double scale;      ///< multiplies the sum at the end
};
struct ColumnEnds {
  double reach[kMaxNr];
  double norm[kMaxNr];
  double roundings[kMaxNr];
  double scale[kMaxNr];
};

/// Panels: A int16 by runs of kRun elements, [pair][lane], width at most mr; B
/// int16 likewise; A f32/f64 [c][width]; B f32 [c][nr]; B f64 two halves, each
/// [c][nr / 2].  Blocks of sums: [width][nr], f64 or f32.
struct TileKernels;
struct Engine;
struct Kernels {
  Isa isa;
  int mr;           ///< MR for f64 and f32: K-vectors of a panel of A
  int mr_integers;  ///< MR for int16
  int nr;

  /// sums[m][n] = sum over `blocks` blocks of a run from `block` on, in int32: one block or all of
  /// them.  The caller ensures that nothing overflows.
  void (*dot_int16)(int width, int block, int blocks, const std::int32_t* a, const std::int32_t* b,
                    std::int32_t* sums) noexcept;
  /// c[m][n] += sums[m][n] * scale_b[n] * scale_a[m].
  void (*add_scaled)(int width, const std::int32_t* sums, const double* scale_a,
                     const double* scale_b, double* c) noexcept;
  /// c[lane][n] += value * (b[n] * scale_b[n]) for each of `count` residuals of A, b[n] the integer
  /// of the same element of each K-vector of B; b and the blocks' scales begin with element `from`.
  void (*add_residuals_of_a)(const Residual* residuals, int count, int from, const std::int32_t* b,
                             const double* scale_b, double* c) noexcept;
  /// d[lane][m] += value * (a[m] * scale_a[m]) likewise, for `width` K-vectors, d [nr][kMaxMr].
  void (*add_residuals_of_b)(int width, const Residual* residuals, int count, int from,
                             const std::int32_t* a, const double* scale_a, double* d) noexcept;
  /// c[m][n] += d[n][m], d [nr][kMaxMr], for m below `width`.
  void (*add_transposed)(int width, const double* d, double* c) noexcept;
  /// c[m][n] += sum over `k_extent`, by fused steps in f64; b is one half, c has nr columns.
  void (*dot_f64)(int width, int k_extent, const double* a, const double* b, double* c) noexcept;
  /// c[m][n] = fma(a[m], b[n], c[m][n]) for c ascending, in f32.
  void (*chain_f32)(int width, int k_extent, const float* a, const float* b, float* c) noexcept;

  /// 128 codes of one K-vector to int16 pairs.  `joint`: all blocks get one exponent, block b's
  /// codes multiplied by factor[b], a power of two of at most 1.
  void (*encode_int16)(const CodeFormat& format, const std::uint8_t* codes, const float* factor,
                       bool joint, std::int32_t* pairs, EncodedRun& run) noexcept;
  /// out[i][lane] = in[lane][i] for `count` dwords, a multiple of 16, of each of `lanes` K-vectors.
  void (*interleave)(int lanes, int count, const std::uint32_t* in, int in_step, std::uint32_t* out,
                     int out_step) noexcept;
  /// out[c][lane] = in[c][lane] for `k_extent` steps; for each lane norm2 += x * x, and min_below =
  /// min(min_below, the bits of |x| minus 1), where a zero wraps around to the maximum.  Rows of
  /// `in` and `out` are `step` apart.
  void (*widen)(int lanes, int k_extent, const float* in, int in_step, double* out, int out_step,
                double* norm2, std::uint32_t* min_below) noexcept;
  /// Rounds n >= 1 sums to bf16 (u16) or f32 (u32) bits; bit i of the result: sum i failed the
  /// rounding test.  `sums` and `out` have room for kMaxNr.
  std::uint32_t (*round)(const RowEnd& row, const ColumnEnds& columns, const double* sums, int n,
                         Dtype out_dtype, void* out) noexcept;
  /// The same for sums that are exact and have no scale left to apply.
  void (*round_exact)(const double* sums, int n, Dtype out_dtype, void* out) noexcept;
  /// The engines that use tile registers, in order of preference; null-terminated.
  const Engine* const* tile_engines = nullptr;
  const TileKernels* tiles = nullptr;  ///< engines/tile_kernels.h
};

/// The table of an instruction set that this machine has.
const Kernels& kernels_of(Isa isa);
const Kernels& amx_kernels();
/// Kernels::dot_int16 of MR 12 and NR 32.
void avx512_vnni_dot_int16(int width, int block, int blocks, const std::int32_t* a,
                           const std::int32_t* b, std::int32_t* sums) noexcept;

}  // namespace mxo::cpu
