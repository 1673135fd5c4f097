// The sums of one tile, by each engine.
#pragma once

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/tiles/tile.h"

namespace mxo::cpu {

inline constexpr int kBlockSums = kMaxLanesA * kMaxLanesB;  ///< room of one pair of panels

/// Panels of a tile over a part of the depth.
struct TilePart {
  const Tile* tile;
  const Panel* a;    ///< tall() of them, packed from an earlier start on
  const Panel* b;    ///< wide() of them
  Depth depth;       ///< as B is packed
  Index first_of_a;  ///< run of A at which it starts
  /// Of some parts that the tile's scratch sees one after the other.
  bool first = true;
  bool last = true;
  int tall() const { return tile->a1 - tile->a0; }
  int wide() const { return tile->b1 - tile->b0; }
};

struct TileScratch {
  alignas(64) double sums[kTilePairs][kBlockSums];    // or floats of a chain
  alignas(64) double turned[kTilePairs][kBlockSums];  // [column][kMaxLanesA], rests of B
  bool has_turned[kTilePairs];
  /// [panel of A][kRun * kMaxLanesA], where a panel has too many rests.
  std::vector<double> dense_a;
  alignas(64) double dense_b[kRun * kMaxLanesB];
  /// [pair][half] of a tile of digits.
  struct DigitBlock {
    alignas(64) DigitSums halves[kMaxLanesB / kTileLanes];
  };
  std::vector<DigitBlock> digits;
  /// Two pairs of one span.
  struct PlaneBlock {
    alignas(64) PlaneSums halves[kMaxLanesB / kTileLanes];
  };
  PlaneBlock planes[2];
  BlockSums bf16[2][kMostBf16Depth / kBlock];  ///< of two pairs
  RoundedRows rows;
  PackScratchPtr pack;
  Panel own_b[kTilePanelsB];
  std::vector<std::byte> own_memory;
};

/// The block of sums of panels i of A and j of B of the tile.
double* block_of(const Tile& tile, TileScratch& scratch, int i, int j);

/// Adds the products of a part to the tile's sums; rests of B stay turned until the last part.
void sum_int16(const Kernels& kernels, const TilePart& part, TileScratch& scratch);
/// The pairs with a panel that has too many rests, from the operands themselves.
void sum_dense(const Kernels& kernels, const TilePart& part, TileScratch& scratch);
/// Those of an engine whose panels may be dense, rounded and written.
void compute_dense(const Kernels& kernels, const TilePart& part, TileScratch& scratch);
void sum_f64(const Kernels& kernels, const TilePart& part, TileScratch& scratch);
void sum_chain(const Kernels& kernels, const TilePart& part, TileScratch& scratch);

}  // namespace mxo::cpu
