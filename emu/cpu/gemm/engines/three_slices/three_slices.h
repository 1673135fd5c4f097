// The panels of kThreeSlicesEngine: a K-vector as integers of 24 bits times one unit, each
// integer 65536 d2 + 256 d1 + d0 with slices d of signed bytes, so that a product of integers is
// nine of bytes.
//
// A panel of A is [chunk][slice][lane][64]: tiles of 16 lanes by 64 elements, slice i being d_i.
// A panel of B is [half][chunk][slice][16][16 lanes][4]: tiles of 64 elements by 16 lanes, four
// neighbours in a dword.  Within a chunk elements lie in the order of slice_place.
#pragma once

#include "emu/cpu/gemm/tiles/engine.h"
#include "emu/cpu/gemm/tiles/slice_pair.h"

namespace mxo::cpu {

inline constexpr int kSliceSums = 2 * kSlices - 1;
inline constexpr int kThreeSliceChunkBytes = kSlices * kTileBytes;
/// K up to which 3 products of signed bytes for each element stay below 2^31.
inline constexpr std::int64_t kMaxThreeSliceK = 32768;
/// Max integer all of whose slices are in [-128, 127].
inline constexpr int kMaxThreeSliceInteger = 0x7F7F7F;
/// Chunks per pass: those of a half of B stay in L1 together with A's.
inline constexpr int kSpanChunksAtOnce = 8;

/// Where element c of a chunk lies among its 64.
constexpr int slice_place(int c) { return c % 16 / 4 * 16 + c / 16 * 4 + c % 4; }

/// Sum i is that of all d_j e_(i-j), [16][16].
using ThreeSliceSums = std::int32_t[kSliceSums][kTileLanes][kTileLanes];

/// Where the slices of a run of one K-vector go.
struct ThreeSliceTarget {
  std::int8_t* first;
  int slice_step;
  int chunk_step;
};

/// Statistics over the runs of one K-vector; a new one for each K-vector.
struct ThreeSliceTally {
  float squares[16] =
      {};  ///< their sum times 1 + 2^-10 bounds that of integers and residuals from above
  std::uint64_t residual[2];  ///< of the last run, bit c: element c is no integer
};

/// Encodes the first chunks of a run of a K-vector; the integers are x * 2^exponent, truncated
/// toward zero.
void avx512_encode_three_slices(int chunks, const float* x, int exponent,
                                const ThreeSliceTarget& to, ThreeSliceTally& tally) noexcept;

void pack_three_slices(const Kernels& kernels, const Product& product, const Factor& factor,
                       const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);
/// What SlicePair is parameterised by.
struct ThreeSlices {
  using Sums = ThreeSliceSums;
  static std::int64_t recombined(const Sums& sums, int m, int n) {
    return mxo::recombined(kSliceSums, [&](int i) { return std::int64_t{sums[i][m][n]}; });
  }
  static int integer_of_a(const MicroPanel& a, int lane, int at) {
    return integer(static_cast<const std::int8_t*>(a.data) + at / kChunk * kThreeSliceChunkBytes +
                   lane * kChunk + slice_place(at % kChunk));
  }
  static int integer_of_b(const MicroPanel& b, Index runs, int lane, int at) {
    const Index chunk = lane / kTileLanes * runs * kChunks + at / kChunk;
    return integer(static_cast<const std::int8_t*>(b.data) + chunk * kThreeSliceChunkBytes +
                   place_in_tile_of_b(lane, slice_place(at % kChunk)));
  }
  static void round(int first, int end, const SlicePair<ThreeSlices>& pair,
                    RoundedRows& to) noexcept;

 private:
  /// Slices lie kTileBytes apart from the lowest on.
  static int integer(const std::int8_t* lowest) {
    return static_cast<int>(
        mxo::recombined(kSlices, [=](int i) { return std::int64_t{lowest[i * kTileBytes]}; }));
  }
};

}  // namespace mxo::cpu
