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

/// An output of a tile of 128 x 128 whose rounding the products of slices do not decide.
struct TileDoubt {
  std::uint8_t row;  ///< of the tile; kSettled: none any more
  std::uint8_t column;
  std::int32_t next;  ///< the sum of the next weight's products with lowest slices of a
  double sum;         ///< of the products of slices, in quanta
};
inline constexpr std::uint8_t kSettled = 0xFF;
/// Doubts of tiles, each in a list of its own; a tile with more of them is hard.
struct TileDoubts {
  static constexpr std::uint32_t kTile = 512;
  TileDoubt* list;
  std::uint32_t* count;
  __device__ std::uint32_t count_of(Index tile) const {
    return count[tile] > kTile ? 0 : count[tile];
  }
};
/// Every output of the doubts: with the next weight's products, and where that does not decide, by
/// failed_outputs.
void settle_tile_doubts(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                        const ThreeSlices& b, const TileDoubts& doubts);

/// All outputs but those of hard tiles, which it names.
void multiply_by_three_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                              const KVectorMemory& b, const HardTiles& hard);

}  // namespace mxo::cuda
