// The outputs of a tile from its sums.
#pragma once

#include "emu/cpu/gemm/tile_sums.h"

namespace mxo::cpu {

/// One pair of panels: sums [m][lanes_b] in f64, rounded once.
void write_exact(const Kernels& kernels, const Product& product, const Panel& a, const Panel& b,
                 const double* sums);
/// All pairs of a tile, of whichever engine.
void write_tile(const Kernels& kernels, const TilePart& part, TileScratch& scratch);

}  // namespace mxo::cpu
