// One macro-tile of outputs of a packed block, from panels to rounded bits.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "emu/cpu/gemm/pack/panel.h"
#include "emu/exact/stage_counts.h"

namespace mxo::cpu {

/// Max panels of a macro-tile along A (MC / MR) and along B (NC / NR), and max pairs.
inline constexpr int kMaxPanelsMc = 32;
inline constexpr int kMaxPanelsNc = 8;
inline constexpr int kMaxTilePairs = 64;
inline constexpr int kSquareTilePanels = 8;  ///< of a square one
/// kc where a macro-tile packs B by itself.
inline constexpr Index kOwnKc = Index{kSpanRuns} * kRun;

/// A rectangle of one product's outputs, its operands packed.
struct PackedBlock {
  const Product* product = nullptr;
  const Engine* engine = nullptr;
  Index first_row = 0, rows = 0;
  Index first_column = 0, columns = 0;
  KBlock k_block;  ///< the part of K that is packed now
  std::vector<MicroPanel> a;
  std::vector<MicroPanel> b;                ///< empty where they were packed before
  std::span<const MicroPanel> panels_of_b;  ///< those, or b
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

inline constexpr int kBlockSums = kMaxMr * kMaxNr;  ///< room of one pair of panels

/// Panels of a tile over a kc block.
struct KcTile {
  const MacroTile* tile;
  const MicroPanel* a;  ///< tall() of them, packed from the same or an earlier k on
  const MicroPanel* b;  ///< wide() of them
  KBlock k_block;       ///< as B is packed
  Index first_of_a;     ///< run of A at which it starts
  /// Position in the series of kc blocks that use the same scratch.
  bool first = true;
  bool last = true;
  const Product& product() const { return *tile->packed->product; }
  bool begins_k() const { return k_block.start == 0; }
  bool ends_k() const { return k_block.start + k_block.count == product().depth; }
  int tall() const { return tile->a1 - tile->a0; }
  int wide() const { return tile->b1 - tile->b0; }
};

/// Rows [first, end) of 32 sums each, rounded to bf16.  A row whose sums all passed the rounding
/// test goes to out + row * step, with non-temporal stores if `streams` (rows then start on cache
/// lines); other rows, or all if `out` is null, go to left[row], with failed[row] their failed
/// sums.
struct RoundedRows {
  std::uint16_t* out;
  std::int64_t step;
  bool streams;
  std::uint32_t rows_left;  ///< bit of each that is in `left`
  alignas(64) std::uint16_t left[kTileLanes][kMaxNr];
  std::uint32_t failed[kTileLanes];
};

/// A thread's own memory.
struct TileScratch {
  alignas(64) double sums[kMaxTilePairs][kBlockSums];        // or floats of a chain
  alignas(64) double transposed[kMaxTilePairs][kBlockSums];  // [column][kMaxMr], residuals of B
  bool has_transposed[kMaxTilePairs];
  /// [panel of A][kRun * kMaxMr], where a panel has residual overflow.
  std::vector<double> overflow_a;
  alignas(64) double overflow_b[kRun * kMaxNr];
  RoundedRows rows;
  StageCounts stages;  ///< of all tiles so far
  PackScratchPtr pack = make_pack_scratch();
  MicroPanel own_b[kMaxPanelsNc];
  std::vector<std::byte> own_memory;
  std::vector<std::byte> engine_memory;

  /// Memory for `count` objects of an engine's own, aligned to a cache line.
  template <typename Numbers>
  Numbers* room(std::size_t count) {
    engine_memory.resize(count * sizeof(Numbers) + 64);
    const auto at = reinterpret_cast<std::uintptr_t>(engine_memory.data());
    return reinterpret_cast<Numbers*>(engine_memory.data() + (64 - at % 64) % 64);
  }
};

/// The block of sums of panels i of A and j of B of the tile.
double* block_of(const MacroTile& tile, TileScratch& scratch, int i, int j);
void clear_sums(const KcTile& tile, TileScratch& scratch);
/// Pairs with residual overflow, computed from the operands in f64: their sums; or all of them,
/// rounded and written.
void sum_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
void compute_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
