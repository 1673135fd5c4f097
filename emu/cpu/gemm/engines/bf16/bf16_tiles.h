// The panels of kBf16Engine: MX codes of few blocks as bf16, scales and all.  Each block's
// products are summed in f32 with a bound of what that loses.
//
// An element is its code's value times 2^-shift, the block's scale being 2^shift below the
// K-vector's greatest.  A panel of A is [block][16 lanes][32], one of B [block][half][16][16
// lanes][2]: tiles of 16 pairs of neighbours by 16 lanes.
#pragma once

#include <algorithm>

#include "emu/cpu/gemm/tiles/engine.h"
#include "formats/tensor_view.h"

namespace mxo::cpu {

/// With a greater K there is more to store than in two slices.
inline constexpr Index kMaxBf16K = 192;
/// Blocks of a K-vector may lie so far apart: no product of two elements is below 2^-126.
inline constexpr int kMaxBf16Shift = 30;
inline constexpr int kTileWords = 512;

using F32Sums = float[kTileLanes][kTileLanes];

/// The sums of a pair over one block.
struct alignas(64) BlockSums {
  F32Sums halves[kMaxNr / kTileLanes];
};

/// What some blocks of up to 32 neighbouring K-vectors amount to.
struct Bf16Tally {
  alignas(64) float squares[kMaxNr] = {};      ///< of the elements
  alignas(64) float max_squares[kMaxNr] = {};  ///< of those of one block
  alignas(64) std::uint16_t
      min_magnitude[kMaxNr];   ///< least word of a magnitude minus 1; 65535: none
  std::uint32_t specials = 0;  ///< K-vectors with a NaN or an infinity
  Bf16Tally() { std::fill(min_magnitude, min_magnitude + kMaxNr, std::uint16_t{0xFFFF}); }
};
/// `blocks` blocks: element c of lane i is codes[c * step + i], block b's scale 2^shift[b][i] below
/// the K-vector's greatest.  To tiles of B, or of its first half alone.
void avx512_encode_bf16(const Bf16Table& table, const std::uint8_t* codes, Index step, int width,
                        int halves, int blocks, const std::uint8_t (*shift)[kMaxNr],
                        std::uint16_t* tiles, Bf16Tally& tally) noexcept;
/// counts[lane] of 16 = elements of `tiles` tiles of B, `step` words apart, that are not zero and
/// of a magnitude below words[lane].
void avx512_count_small(int tiles, Index step, const std::uint16_t* from,
                        const std::uint16_t* words, std::uint16_t* counts) noexcept;

/// The sum of a row of A and a column of a half of B in f64: products are exact, and as many are
/// added as there are.
double avx512_sum_f64_of(int blocks, const std::uint16_t* a, const std::uint16_t* b) noexcept;
/// TileKernels::round_bf16.
void avx512_round_bf16(int first, int end, int blocks, const BlockSums* sums,
                       const KVectorErrors& a, const KVectorErrors& b, RoundedRows& to) noexcept;

void pack_bf16(const Kernels& kernels, const Product& product, const Factor& factor,
               const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);

}  // namespace mxo::cpu
