// The sums of one tile, by each engine.
#pragma once

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/tiles/tile.h"

namespace mxo::cpu {

inline constexpr int kBlockSums = kMaxMr * kMaxNr;  ///< room of one pair of panels

/// Panels of a tile over a kc block.
struct KcTile {
  const MacroTile* tile;
  const MicroPanel* a;  ///< tall() of them, packed from an earlier start on
  const MicroPanel* b;  ///< wide() of them
  KBlock k_block;       ///< as B is packed
  Index first_of_a;     ///< run of A at which it starts
  /// Of some kc blocks that the tile's scratch sees one after the other.
  bool first = true;
  bool last = true;
  int tall() const { return tile->a1 - tile->a0; }
  int wide() const { return tile->b1 - tile->b0; }
};

struct TileScratch {
  alignas(64) double sums[kMaxTilePairs][kBlockSums];        // or floats of a chain
  alignas(64) double transposed[kMaxTilePairs][kBlockSums];  // [column][kMaxMr], residuals of B
  bool has_transposed[kMaxTilePairs];
  /// [panel of A][kRun * kMaxMr], where a panel has too many residuals.
  std::vector<double> overflow_a;
  alignas(64) double overflow_b[kRun * kMaxNr];
  /// [pair][half] of a macro-tile of three slices.
  struct ThreeSliceBlock {
    alignas(64) ThreeSliceSums halves[kMaxNr / kTileLanes];
  };
  std::vector<ThreeSliceBlock> three_slices;
  /// Two pairs of one span.
  struct TwoSliceBlock {
    alignas(64) TwoSliceSums halves[kMaxNr / kTileLanes];
  };
  TwoSliceBlock slices[2];
  BlockSums bf16[2][kMaxBf16K / kBlock];  ///< of two pairs
  RoundedRows rows;
  PackScratchPtr pack;
  MicroPanel own_b[kMaxPanelsNc];
  std::vector<std::byte> own_memory;
};

/// The block of sums of panels i of A and j of B of the tile.
double* block_of(const MacroTile& tile, TileScratch& scratch, int i, int j);

/// Adds the products of a kc block to the tile's sums; residuals of B stay transposed until the
/// last.
void sum_int16(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
/// The pairs with a panel that has too many residuals, from the operands themselves.
void sum_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
/// Those of an engine whose panels may have residual overflow, rounded and written.
void compute_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
void sum_f64(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
void sum_chain(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
