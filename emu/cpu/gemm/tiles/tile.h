// One tile of outputs of a job, from packed panels to rounded bits.
#pragma once

#include <memory>
#include <vector>

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

/// Panels of a tile along A and along B, and at most so many pairs of them.
inline constexpr int kTilePanelsA = 32;
inline constexpr int kTilePanelsB = 8;
inline constexpr int kTilePairs = 64;
inline constexpr int kTileSide = 8;  ///< of a square one
/// Elements of B's depth that a tile packs at once where it packs B by itself.
inline constexpr Index kOwnDepth = Index{kSpanRuns} * kRun;

/// A rectangle of one product's outputs, its operands packed.
struct Job {
  const Product* product = nullptr;
  Engine engine = Engine::int16;
  Index first_row = 0, rows = 0;
  Index first_column = 0, columns = 0;
  Depth depth;  ///< the part of the contracted axis that is packed now
  std::vector<Panel> a;
  std::vector<Panel> b;
  bool own_b = false;      ///< B's panels are not packed: each tile packs its own, part by part
  double* sums = nullptr;  ///< all blocks of sums, where the depth comes in parts; else null
  bool first_part() const { return depth.start == 0; }
  bool last_part() const { return depth.start + depth.count == product->depth; }
};

/// Panels [a0, a1) x [b0, b1) of a job.
struct Tile {
  Job* job;
  int a0, a1, b0, b1;
};

/// A thread's own memory.
struct TileScratch;
struct TileScratchDelete {
  void operator()(TileScratch* scratch) const;
};
using TileScratchPtr = std::unique_ptr<TileScratch, TileScratchDelete>;
TileScratchPtr make_tile_scratch();

/// Adds the part of the depth that is packed, and after the last part writes the outputs.
void compute_tile(const Kernels& kernels, const Tile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
