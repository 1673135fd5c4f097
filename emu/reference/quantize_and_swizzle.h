// Blocked scales in two steps: scales in order, then these into tiles.
#pragma once

#include "ops/backend_tensor.h"
#include "ops/quantize.h"
#include "ops/scale_layouts.h"

namespace mxo {

/// Where no kernel writes tiles at once: the backend's own quantize and swizzle_scales.
inline void quantize_and_swizzle(Backend& backend, const Quantize& op) {
  const std::vector<Index> shape = shape_of_scales(shape_of(op.x), op.to.block);
  BackendTensor scales(backend, Dtype::e8m0, shape.data(), static_cast<int>(shape.size()));
  Quantize plain = op;
  plain.to.scales = scales.result();
  plain.to.storage = ScaleStorage::row_major;
  quantize(backend, plain);
  const bool several = op.x.rank == 3;
  swizzle_scales(backend, {scales.operand(),
                           {},
                           op.to.scales,
                           several ? ScaleLayout::per_group_3d : ScaleLayout::blocked});
}

}  // namespace mxo
