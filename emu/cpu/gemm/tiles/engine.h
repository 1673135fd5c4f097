// An engine: one way to pack, sum and round, as a table.
#pragma once

#include "emu/cpu/gemm/tiles/writer.h"

namespace mxo::cpu {

struct Engine {
  bool (*suits)(const Product& product);
  bool whole_k;      ///< one unit per K-vector, known only from all of K: K is not cut
  bool full_panels;  ///< panels of A are stored MR wide, whatever their width
  int Kernels::*mr;
  PanelBytes (*bytes)(int step, int scale_step, const KBlock& k_block);
  /// Fills the panel from elements [k_block.start, + count) of its K-vectors; bounds accumulate
  /// over calls for the kc blocks of one K.
  void (*pack)(const Kernels& kernels, const Product& product, const Factor& factor,
               const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);
  /// Adds a kc block to the tile's sums, and after the last one writes the outputs.
  void (*compute)(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
};

// The engines that run on every machine.
extern const Engine kInt16Engine;  ///< 8-bit codes as int16, exact int32 sums of a run, f64 across
extern const Engine kF64Engine;    ///< bf16 operands in f64
extern const Engine kChainEngine;  ///< fma_chain in f32
// The engines that use tile registers.
extern const Engine kThreeSlicesEngine;
extern const Engine kBf16Engine;
extern const Engine kTwoSlicesEngine;

/// Calls compute(pair, i, j) for every pair of panels of the tile, each as a 1 x 1 tile.
template <typename Compute>
void each_pair(const KcTile& tile, const Compute& compute) {
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      const MacroTile one{tile.tile->packed, tile.tile->a0 + i, tile.tile->a0 + i + 1,
                          tile.tile->b0 + j, tile.tile->b0 + j + 1};
      compute(KcTile{&one, tile.a + i, tile.b + j, tile.k_block, tile.first_of_a}, i, j);
    }
  }
}

/// f64 sums kept across kc blocks: sum(kernels, tile, scratch) adds one block.
template <typename Sum>
void sum_and_write(const Kernels& kernels, const KcTile& tile, TileScratch& scratch,
                   const Sum& sum) {
  if (tile.begins_k()) clear_sums(tile, scratch);
  sum(kernels, tile, scratch);
  if (tile.ends_k()) write_tile(kernels, tile, scratch);
}

}  // namespace mxo::cpu
