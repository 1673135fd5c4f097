// Pairs of panels with residual overflow, through f64.
#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/tiles/tile_write.h"

namespace mxo::cpu {

void compute_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const auto residual_overflow = [](const MicroPanel& panel) { return panel.residual_overflow; };
  if (std::none_of(tile.a, tile.a + tile.tall(), residual_overflow) &&
      std::none_of(tile.b, tile.b + tile.wide(), residual_overflow)) {
    return;
  }
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      std::memset(block_of(*tile.tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
    }
  }
  sum_overflow(kernels, tile, scratch);
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      if (!tile.a[i].residual_overflow && !tile.b[j].residual_overflow) continue;
      write_exact(kernels, *tile.tile->packed->product, tile.a[i], tile.b[j],
                  block_of(*tile.tile, scratch, i, j));
    }
  }
}

}  // namespace mxo::cpu
