// scaling_aware_transpose, one tile after another.
#include "emu/reference/scaling_aware_transpose.h"

#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const ScalingAwareTranspose& op) {
  for_each_tile(op.group_ends, [&](const TransposeTile& tile) {
    for (Index block = 0; block < op.scales.extent[1]; ++block) {
      if (op.codes.dtype == Dtype::e4m3) {
        transpose_tile<E4M3>(op, tile, block);
      } else {
        transpose_tile<E4M3Fnuz>(op, tile, block);
      }
    }
  });
}

}  // namespace mxo
