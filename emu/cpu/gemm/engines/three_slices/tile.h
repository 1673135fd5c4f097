// A tile of outputs from panels of digits.
#pragma once

#include "emu/cpu/gemm/tiles/tile_sums.h"

namespace mxo::cpu {

/// Sums, rounds and writes the tile; its part is all of the depth.
void compute_digits(const Kernels& kernels, const TilePart& part, TileScratch& scratch);

}  // namespace mxo::cpu
