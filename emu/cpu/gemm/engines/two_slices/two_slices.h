// The panels of AMX: an integer as two slices of bytes, so that a product of int16 is four of
// bytes.
//
// An integer x is 256 * high + low, high signed, low not.  A run of A is [slice][chunk][lane][64],
// tiles of 16 lanes by 64 elements.  A run of B is [half][slice][chunk][16][16 lanes][4]: tiles of
// 64 elements by 16 lanes, four neighbours in a dword.  Slice 0 is the high one.
//
// Sums of the slices' products stay below 2^31 for 2^15 elements, so tiles are flushed once per
// span: some runs in which each K-vector has one unit, such that the format's max magnitude at the
// largest of its scales is just below 2^15.
#pragma once

#include <cstring>
#include <span>

#include "emu/cpu/gemm/pack/integer_packer.h"
#include "emu/cpu/gemm/tiles/engine.h"
#include "emu/cpu/gemm/tiles/slice_pair.h"

namespace mxo::cpu {

constexpr int tile_of_a(int slice, int chunk) { return (slice * kChunks + chunk) * kTileBytes; }
/// Of chunk `at`, counted from a run on.
constexpr int chunk_of_a(int slice, int at) {
  return at / kChunks * 2 * kChunks * kTileBytes + tile_of_a(slice, at % kChunks);
}
constexpr int tile_of_b(int half, int slice, int chunk) {
  return ((half * 2 + slice) * kChunks + chunk) * kTileBytes;
}
inline constexpr int kRunBytes = 2 * kChunks * kTileBytes;  ///< of A; of B twice as many

/// Statistics of one span of a K-vector; `residual` and `special` are of the last call only.
struct alignas(64) SliceTally {
  /// They add up to the sum of (high byte of the magnitude + 1)^2: an upper bound of each element,
  /// in 256 units.
  std::uint32_t squares[16];
  std::uint8_t min_magnitude[64];       ///< min magnitude minus 1, modulo 256
  std::uint64_t residual[kSpanChunks];  ///< of each chunk, bit c: element c may have a residual
  bool special;                         ///< has a NaN or an infinity: the slices are undefined

  void clear() {
    std::memset(squares, 0, sizeof(squares));
    std::memset(min_magnitude, 255, sizeof(min_magnitude));
  }
};

/// Where the two slices of one K-vector go: `step` bytes from chunk to chunk of a run, `run_step`
/// from run to run.
struct SliceTarget {
  std::int8_t* high;
  std::int8_t* low;
  int step;
  int run_step;
  int place(int chunk) const { return chunk / kChunks * run_step + chunk % kChunks * step; }
};

/// The part of two panels to multiply: chunks [first, first + count) counted from a run, with both
/// blocks of a chunk or one of them.
struct ChunkRange {
  int first;
  int count;
  enum Blocks : std::uint8_t { both, lower, upper } blocks;
};

/// The products of byte slices of a 16 x 16 tile of sums: high * high, the two mixed ones,
/// low * low, one [16][16] each.
using TwoSliceSums = std::int32_t[3][kTileLanes][kTileLanes];

/// TileKernels::encode_two_slices.
void vbmi_encode_slices(const SliceTable& table, int chunks, const std::uint8_t* codes,
                        const std::uint8_t* shift, const SliceTarget& to,
                        SliceTally& tally) noexcept;

/// Splits the int16 pairs of a K-vector's run, as encode_int16 writes them, into slices.
void avx512_split_pairs(const std::uint32_t* pairs, const SliceTarget& to) noexcept;
/// One panel's residuals in some runs; integers and scales of the other side start with these runs.
struct PanelResiduals {
  std::span<const Residual> residuals;
  unsigned from = 0;                      ///< the element at which the runs start
  const std::int8_t* integers = nullptr;  ///< in tiles of B
  const double* scales = nullptr;
};
/// Those of both panels of 16 x 16 outputs.
struct PairResiduals {
  PanelResiduals of_a;  ///< added to c, [m][kMaxNr]
  PanelResiduals of_b;  ///< added to d, [n][kMaxMr]
  double* c = nullptr;
  double* d = nullptr;
  int count() const { return static_cast<int>(of_a.residuals.size() + of_b.residuals.size()); }
};
/// A 16 x 16 tile of sums to recombine: c[m * kMaxNr + n] += sum * scale_b[n] * scale_a[m].
struct PendingSums {
  const TwoSliceSums* slices = nullptr;  ///< null: none
  const double* scale_a = nullptr;
  const double* scale_b = nullptr;
  double* c = nullptr;
};
/// Sums in eights: parts of a row.
inline constexpr int kPendingParts = kTileLanes * kTileLanes / 8;
/// From part `part` and residual `first` on.
void avx512_add_pending(const PendingSums& pending, int part) noexcept;
void avx512_add_residuals(const PairResiduals& residuals, int first) noexcept;
/// Chunks of A, from the start of a run, as tiles of B in the same places.
void avx512_copy_as_b(int chunks, const std::int8_t* a, std::int8_t* copy) noexcept;
/// Chunk `range.first` of A with one block zeroed: two tiles, high and low.
void avx512_slices_of_block(const std::int8_t* a, const ChunkRange& range,
                            std::int8_t (&tiles)[2][kTileBytes]) noexcept;

void pack_two_slices(const Kernels& kernels, const Product& product, const Factor& factor,
                     const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);
/// What SlicePair is parameterised by.
struct TwoSlices {
  using Sums = TwoSliceSums;
  static std::int64_t recombined(const Sums& sums, int m, int n) {
    return mxo::recombined(3, [&](int i) { return std::int64_t{sums[2 - i][m][n]}; });
  }
  static int integer_of_a(const MicroPanel& a, int lane, int at) {
    const auto* tiles = static_cast<const std::int8_t*>(a.data) + at / kRun * kRunBytes;
    const int place = lane * kChunk + at % kChunk;
    const int chunk = at % kRun / kChunk;
    return 256 * tiles[tile_of_a(0, chunk) + place] +
           static_cast<std::uint8_t>(tiles[tile_of_a(1, chunk) + place]);
  }
  static int integer_of_b(const MicroPanel& b, Index, int lane, int at) {
    const auto* tiles = static_cast<const std::int8_t*>(b.data) + at / kRun * 2 * kRunBytes;
    const int chunk = at % kRun / kChunk;
    const int half = lane / kTileLanes;
    const int place = place_in_tile_of_b(lane, at % kChunk);
    return 256 * tiles[tile_of_b(half, 0, chunk) + place] +
           static_cast<std::uint8_t>(tiles[tile_of_b(half, 1, chunk) + place]);
  }
  static void round(int first, int end, const SlicePair<TwoSlices>& pair, RoundedRows& to) noexcept;
};

}  // namespace mxo::cpu
