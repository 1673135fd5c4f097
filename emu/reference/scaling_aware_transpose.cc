// scaling_aware_transpose, one tile after another.
#include "emu/reference/scaling_aware_transpose.h"

#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const ScalingAwareTranspose& op) {
  for_each_tile(op.group_ends, [&](const TransposeTile& tile) {
    for (Index block = 0; block < op.scales.extent[1]; ++block) transpose_tile(op, tile, block);
  });
}

}  // namespace mxo
