// bf16 K-vectors as integers of three slices for results in bf16: six of the nine products of
// slices, and lists of the few elements whose lowest slice the other three ask for.
// docs/exact_product.md, Products on a device, Three slices.
#pragma once

#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {

/// Elements with a lowest slice that a K-vector may have; one that has more is left to the slices
/// of slices.cuh.
inline constexpr int kMaxLows = 510;
/// Chunks of 128 whose three products of slices of one weight fit int32: 2^14 each.
inline constexpr int kMaxTripleChunks = 341;

/// The lowest slices of a K-vector that are not 0.
struct alignas(16) Lows {
  std::int32_t count;
  std::int32_t sum;              ///< of their magnitudes
  std::uint32_t item[kMaxLows];  ///< place, 65536 times the slice
};

/// Three slices of every K-vector.  Their windows have kManyResiduals in place of a number of
/// slices where these do not serve, and in place of the residuals' norm what a product's sums of
/// the three highest weights are off by on account of the K-vector, in 65536 quanta.
struct ThreeSlices {
  Slices slices;
  const Lows* lows = nullptr;  ///< of each window
};
struct ThreeSliceScratch {
  SliceScratch slices;
  std::optional<Scratch<Lows>> lows;
};

/// True if a product may be tried with three slices.
bool takes_three_slices(const Problem& p);
/// Takes `f` apart, p.a or p.b itself, whose K-vectors are laid in `codes`.
ThreeSlices make_three_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                              const KVectorMemory& codes, Index k_vectors,
                              ThreeSliceScratch& scratch);
/// Every output that passes the rounding test; the others go to `doubts`, or their tile to `hard`.
void multiply_three_slices(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                           const ThreeSlices& b, const Doubts& doubts, const HardTiles& hard);
/// The outputs of `doubts`: with the next weight's products, and where that does not decide, by
/// failed_outputs.
void settle_doubts(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                   const ThreeSlices& b, const Doubts& doubts);

}  // namespace mxo::cuda
