// An engine: one way to pack, sum and round, as a table.
#pragma once

#include "emu/cpu/gemm/tiles/tile_write.h"

namespace mxo::cpu {

struct Engine {
  bool (*suits)(const Product& product);
  bool whole_k;      ///< a K-vector has one unit, which takes all of it to find: K is not cut
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

/// A thread's tile registers, if the kernels have any, between begin and end.
class TileRegisters {
 public:
  explicit TileRegisters(const Kernels& kernels) : kernels_(kernels) {
    if (kernels_.begin != nullptr) kernels_.begin();
  }
  ~TileRegisters() {
    if (kernels_.end != nullptr) kernels_.end();
  }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  const Kernels& kernels_;
};

/// compute(pair, i, j) for every pair of panels of the tile, as a tile of its own.
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

/// Sums in f64 that outlast a kc block: sum(kernels, tile, scratch) adds one.
template <typename Sum>
void sum_and_write(const Kernels& kernels, const KcTile& tile, TileScratch& scratch,
                   const Sum& sum) {
  if (tile.begins_k()) clear_sums(tile, scratch);
  {
    const TileRegisters registers(kernels);
    sum(kernels, tile, scratch);
  }
  if (tile.ends_k()) write_tile(kernels, tile, scratch);
}

}  // namespace mxo::cpu
