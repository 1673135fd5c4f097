// scaling_aware_transpose, tiles over threads.
#include "emu/reference/scaling_aware_transpose.h"

#include <vector>

#include "emu/cpu/cpu_backend.h"

namespace mxo::cpu {

void CpuBackend::run(const ScalingAwareTranspose& op) {
  std::vector<TransposeTile> tiles;
  for_each_tile(op.group_ends, [&](const TransposeTile& tile) { tiles.push_back(tile); });
  const Index blocks = op.scales.extent[1];
  const Index work = static_cast<Index>(tiles.size()) * blocks;
#pragma omp parallel for num_threads(threads_)
  for (Index i = 0; i < work; ++i) {
    transpose_tile(op, tiles[static_cast<std::size_t>(i / blocks)], i % blocks);
  }
}

}  // namespace mxo::cpu
