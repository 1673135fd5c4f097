// A macro-tile of outputs from panels of three slices.
#pragma once

#include "emu/cpu/gemm/tiles/tile_sums.h"

namespace mxo::cpu {

/// Sums, rounds and writes the tile; its kc block is all of K.
void compute_three_slices(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
