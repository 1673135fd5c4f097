// K-vectors as integers of four slices for results in bf16 whose tiles three leave: the thirteen
// products of the greatest weights, of bf16 elements fifteen.  docs/exact_product.md, Four slices.
#pragma once

#include "emu/cuda/gemm/three_slices.cuh"
#include "emu/exact/four_slices_bounds.h"

namespace mxo::cuda {

/// True if the products of weight 1 are taken, too: bf16 elements often have a lowest slice.
__host__ __device__ inline bool takes_weight_1(const Problem& p) {
  return p.form == ScaleForm::none;
}
/// Four slices of K-vectors.  Their windows have kManyResiduals in place of a number of slices
/// where these do not serve, and in place of the residuals' norm share_of_four_slices().
Slices make_four_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, const std::int32_t* wanted,
                        SliceScratch& scratch, const Runs& runs = {});

/// All outputs of the tiles `of`, but of those that it names in `hard`.
void multiply_by_four_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                             const KVectorMemory& b, const HardTiles& of, const HardTiles& hard);

}  // namespace mxo::cuda
