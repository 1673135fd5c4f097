// How products are cut into MC x NC blocks that fit in memory, and blocks grouped into batches.
#pragma once

#include <vector>

#include "emu/cpu/gemm/plan/kept_panels.h"

namespace mxo::cpu {

/// MC x NC outputs of a product, and how much of K is packed at a time.
struct BlockPlan {
  const Product* product;
  Index first_row, rows;
  Index first_column, columns;
  Index kc;           ///< elements of K at once; all of K, or a multiple of kRun
  std::size_t bytes;  ///< of packed panels and, if kc is less than K, of sums
  bool own_b;         ///< only A is packed in advance; PackedBlock::own_b
  PanelsOfB kept;     ///< B's panels, where they are packed already; else empty
};

/// Bytes of packed operands.
struct PackedRoom {
  std::size_t block;  ///< at most, of one block
  std::size_t batch;  ///< of several: enough to keep the threads busy, little enough to stay cached
};

/// Blocks in order, cut to fit; small consecutive ones form a batch.  `kept`: of each product.
std::vector<std::vector<BlockPlan>> batches_of(const Kernels& kernels, const Engine& engine,
                                               const std::vector<Product>& products,
                                               const std::vector<PanelsOfB>& kept,
                                               const PackedRoom& room);

/// Whether the rows of `before` are those of `plan`, all of K: as A lies first in a batch's memory,
/// its panels can stay.
bool continues_a(const BlockPlan& before, const BlockPlan& plan);

/// B's panels of K-vectors [first, first + count) over a kc block, laid out from `memory` on.
void place_panels_of_b(const Kernels& kernels, const Engine& engine, Index first, Index count,
                       const KBlock& k_block, std::byte* memory, std::vector<MicroPanel>& panels);

/// Packs a kc block of a panel of A or B; K-vectors' bounds begin and end with those of K.
void pack_panel(const Kernels& kernels, const Engine& engine, const Product& product,
                const Factor& factor, const KBlock& k_block, MicroPanel& panel,
                PackScratch& scratch);

/// Sets up `packed` for a plan, its panels laid out for the first kc block.
void set_packed_block(const Kernels& kernels, const Engine& engine, const BlockPlan& plan,
                      std::byte* memory, PackedBlock& packed);

/// The macro-tiles of a packed block: at least `wanted`, if it has that many panels.
void add_tiles(PackedBlock& packed, std::size_t wanted, std::vector<MacroTile>& tiles);

/// Products by one engine.
StageCounts run(const Kernels& kernels, const Engine& engine, const std::vector<Product>& products,
                int threads);

}  // namespace mxo::cpu
