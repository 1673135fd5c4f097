// One macro-tile of outputs of a packed block, from panels to rounded bits.
#pragma once

#include <memory>
#include <vector>

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

/// Panels of a macro-tile along A (MC / MR) and along B (NC / NR), and at most so many pairs.
inline constexpr int kMaxPanelsMc = 32;
inline constexpr int kMaxPanelsNc = 8;
inline constexpr int kMaxTilePairs = 64;
inline constexpr int kSquareTilePanels = 8;  ///< of a square one
/// kc where a macro-tile packs B by itself.
inline constexpr Index kOwnKc = Index{kSpanRuns} * kRun;

/// A rectangle of one product's outputs, its operands packed.
struct PackedBlock {
  const Product* product = nullptr;
  Engine engine = Engine::int16;
  Index first_row = 0, rows = 0;
  Index first_column = 0, columns = 0;
  KBlock k_block;  ///< what of K is packed now
  std::vector<MicroPanel> a;
  std::vector<MicroPanel> b;
  bool own_b =
      false;  ///< B's panels are not packed: each tile packs its own, one kc block at a time
  double* sums = nullptr;  ///< all blocks of sums, where K has several kc blocks; else null
  bool first_kc() const { return k_block.start == 0; }
  bool last_kc() const { return k_block.start + k_block.count == product->depth; }
};

/// Panels [a0, a1) x [b0, b1) of a packed block.
struct MacroTile {
  PackedBlock* packed;
  int a0, a1, b0, b1;
};

/// A thread's own memory.
struct TileScratch;
struct TileScratchDelete {
  void operator()(TileScratch* scratch) const;
};
using TileScratchPtr = std::unique_ptr<TileScratch, TileScratchDelete>;
TileScratchPtr make_tile_scratch();

/// Adds the kc block that is packed, and after the last one writes the outputs.
void compute_tile(const Kernels& kernels, const MacroTile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
