// What tables with tile registers share.
#include "emu/cpu/gemm/engines/tile_kernels.h"

namespace mxo::cpu {

Kernels with_tiles(Isa isa, const TileKernels& tiles) {
  static const Engine* const engines[] = {&kThreeSlicesEngine, &kBf16Engine, &kTwoSlicesEngine,
                                          nullptr};
  Kernels k = avx512_kernels();
  k.isa = isa;
  k.mr_integers = kTileLanes;
  k.tile_engines = engines;
  k.tiles = &tiles;
  k.add_residuals_of_a = avx512_add_residuals_of_a;
  k.add_residuals_of_b = avx512_add_residuals_of_b;
  return k;
}

}  // namespace mxo::cpu
