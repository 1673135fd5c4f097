// The panels of kBf16Engine: MX codes with small K as bf16, scales folded in.  Each block's
// products are summed in f32, with a bound on the rounding error.
//
// An element is its code's value times 2^-shift, the block's scale being 2^shift below the
// K-vector's greatest.  A panel of A is [block][16 lanes][32], one of B [block][half][16][16
// lanes][2]: tiles of 16 pairs of neighbours by 16 lanes.
#pragma once

#include <algorithm>

#include "emu/cpu/gemm/tiles/engine.h"
#include "formats/tensor_view.h"

namespace mxo::cpu {

/// With a larger K the panels are larger than those of two slices.
inline constexpr Index kMaxBf16K = 192;
/// Max spread of a K-vector's scales: no product of two elements falls below 2^-126.
inline constexpr int kMaxBf16Shift = 30;
inline constexpr int kTileWords = 512;

using F32Sums = float[kTileLanes][kTileLanes];

/// The sums of a pair over one block.
struct alignas(64) BlockSums {
  F32Sums halves[kMaxNr / kTileLanes];
};

/// Statistics of some blocks of up to 32 neighbouring K-vectors.
struct Bf16Tally {
  alignas(64) float squares[kMaxNr] = {};           ///< sum of squares of the elements
  alignas(64) float max_squares[kMaxNr] = {};       ///< max of that over single blocks
  alignas(64) std::uint16_t min_magnitude[kMaxNr];  ///< min magnitude word minus 1; 65535: none
  std::uint32_t specials = 0;                       ///< K-vectors with a NaN or an infinity
  Bf16Tally() { std::fill(min_magnitude, min_magnitude + kMaxNr, std::uint16_t{0xFFFF}); }
};
/// `blocks` blocks: element c of lane i is codes[c * step + i], block b's scale 2^shift[b][i] below
/// the K-vector's largest.  Writes tiles of B, or of its first half alone.
void avx512_encode_bf16(const Bf16Table& table, const std::uint8_t* codes, Index step, int width,
                        int halves, int blocks, const std::uint8_t (*shift)[kMaxNr],
                        std::uint16_t* tiles, Bf16Tally& tally) noexcept;
/// counts[lane] for 16 lanes = number of nonzero elements below words[lane] in magnitude, over
/// `tiles` tiles of B, `step` words apart.
void avx512_count_small(int tiles, Index step, const std::uint16_t* from,
                        const std::uint16_t* words, std::uint16_t* counts) noexcept;

/// The dot product of a row of A and a column of a half of B in f64: products are exact, each
/// addition rounds once.
double avx512_sum_f64_of(int blocks, const std::uint16_t* a, const std::uint16_t* b) noexcept;
/// TileKernels::round_bf16.
void avx512_round_bf16(int first, int end, int blocks, const BlockSums* sums,
                       const KVectorErrors& a, const KVectorErrors& b, RoundedRows& to) noexcept;

void pack_bf16(const Kernels& kernels, const Product& product, const Factor& factor,
               const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);

}  // namespace mxo::cpu
