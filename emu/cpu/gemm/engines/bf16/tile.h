// One tile of Engine::bf16.
#pragma once

#include "emu/cpu/gemm/tiles/tile_sums.h"

namespace mxo::cpu {

void compute_bf16(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);

}  // namespace mxo::cpu
