// The exact product of three slices into f32: all nine products of slices, and what the few
// residuals add as integers.  docs/exact_product.md, Three slices into f32.
#pragma once

#include "emu/cuda/gemm/three_slices.cuh"
#include "emu/exact/nine_products.h"

namespace mxo::cuda {

/// True if a product is tried with them: of bf16 into f32, in tiles that are not mostly empty.
bool takes_nine_products(const Problem& p);

/// Sums of rest_product(), in quanta of both K-vectors: rows of tiles of 128 x 128 outputs
/// one after the other, in the order of Corrections::place(); nothing of hard tiles.
std::int32_t* add_rest_products(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                                const ThreeSlices& b,
                                std::optional<Scratch<std::int32_t>>& scratch);

/// Every output but those of tiles that it names in `hard`.
void multiply_by_nine_products(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                               const KVectorMemory& b, const HardTiles& hard);

}  // namespace mxo::cuda
