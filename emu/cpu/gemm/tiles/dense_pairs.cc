// The pairs of panels that an engine of tiles leaves, through f64.
#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/tiles/tile_write.h"

namespace mxo::cpu {

void compute_dense(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const auto dense = [](const Panel& panel) { return panel.dense; };
  if (std::none_of(part.a, part.a + part.tall(), dense) &&
      std::none_of(part.b, part.b + part.wide(), dense)) {
    return;
  }
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      std::memset(block_of(*part.tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
    }
  }
  sum_dense(kernels, part, scratch);
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      if (!part.a[i].dense && !part.b[j].dense) continue;
      write_exact(kernels, *part.tile->job->product, part.a[i], part.b[j],
                  block_of(*part.tile, scratch, i, j));
    }
  }
}

}  // namespace mxo::cpu
