// The sums of one tile, by each engine.
#pragma once

#include "emu/cpu/gemm/tile.h"

namespace mxo::cpu {

inline constexpr int kBlockSums = kMaxLanesA * kMaxLanesB;  ///< room of one pair of panels
inline constexpr int kTilePairs = kTilePanelsA * kTilePanelsB;

struct TileScratch {
  alignas(64) double sums[kTilePairs][kBlockSums];    // or floats of a chain
  alignas(64) double turned[kTilePairs][kBlockSums];  // [column][kMaxLanesA], rests of B
  bool has_turned[kTilePairs];
  alignas(64) double dense_a[kTilePanelsA][kRun * kMaxLanesA];
  alignas(64) double dense_b[kRun * kMaxLanesB];
  PackScratchPtr pack;
};

/// The block of sums of panels ia, ib of the job.
double* block_of(const Tile& tile, TileScratch& scratch, int ia, int ib);

void sum_int16(const Kernels& kernels, const Tile& tile, TileScratch& scratch);
void sum_f64(const Kernels& kernels, const Tile& tile, TileScratch& scratch);
void sum_chain(const Kernels& kernels, const Tile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
