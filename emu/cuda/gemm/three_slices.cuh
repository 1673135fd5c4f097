// K-vectors as integers of three slices for results in bf16: six of the nine products of slices,
// and lists of the few elements whose lowest slice the other three ask for, or a seventh and an
// eighth product where they are many.  For bf16 elements, and for 8-bit codes that two slices
// leave. docs/exact_product.md, Products on a device, Three slices.
#pragma once

#include "emu/cuda/gemm/two_slices.cuh"
#include "emu/exact/three_slices_bounds.h"

namespace mxo::cuda {

/// Elements with a lowest slice that lists hold.
inline constexpr int kMaxLows = 510;

/// Residuals that lists hold.
inline constexpr int kMaxRests = 256;

/// The lowest slices of a K-vector that are not 0, and what its integers leave.
struct alignas(16) Lows {
  std::int32_t count;
  std::int32_t sum;               ///< of their magnitudes
  std::int32_t rests;             ///< more than kMaxRests: the list does not have all of them
  std::uint32_t item[kMaxLows];   ///< place, 65536 times the slice
  std::uint32_t rest[kMaxRests];  ///< place, and above it the bits of a bf16
};

/// Three slices of every K-vector.  Their windows have kManyResiduals in place of a number of
/// slices where these do not serve, in place of the residuals' norm share_of_residuals(), or, for
/// results in f32, their number, and in place of the greatest magnitude the sum of the lowest
/// slices' magnitudes, which are not listed for those.
struct ThreeSlices {
  Slices slices;
  const Lows* lows = nullptr;  ///< of each window
};
struct ThreeSliceScratch {
  SliceScratch slices;
  std::optional<Scratch<Lows>> lows;
};

/// Of a factor's windows every `step`-th run of `length`.
struct Runs {
  Index length = 1;
  Index step = 1;
  __device__ Index window(Index number) const {
    return number / length * (length * step) + number % length;
  }
};
/// Takes those windows of `f` apart, p.a or p.b itself, whose K-vectors are laid in `codes`, unless
/// `wanted` is given and 0 on the device.
ThreeSlices make_three_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                              const KVectorMemory& codes, Index k_vectors,
                              const std::int32_t* wanted, ThreeSliceScratch& scratch,
                              const Runs& runs = {});

/// The tiles `of` whose K-vectors are worth taking apart: none, all of them being named in `hard`,
/// if most of a few K-vectors of either factor do not serve.  `wanted` is memory for the answer.
HardTiles tiles_of_three_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                                const KVectorMemory& b, const HardTiles& of, const HardTiles& hard,
                                std::int32_t* wanted);

/// After a look at some of the tiles `of`: if `none` is worth trying, all are named in `hard`, and
/// `wanted` says whether there is one to try.  All threads of a grid.
__device__ inline void judge(const Problem& p, const HardTiles& of, const HardTiles& hard,
                             bool none, std::int32_t* wanted) {
  const bool any = of.any == nullptr || *of.any != 0;
  const Index thread = blockIdx.x * Index{blockDim.x} + threadIdx.x;
  if (thread == 0) *wanted = any && !none ? 1 : 0;
  if (!any || !none) return;
  const Index tiles = HardTiles::place(p, p.groups, 0, 0);
  for (Index i = thread; i < tiles; i += gridDim.x * Index{blockDim.x}) {
    if (of.tile == nullptr || of.tile[i] != 0) hard.tile[i] = 1;
  }
  *hard.any = 1;
}

/// An output of a tile of 128 x 128 whose rounding the products of slices do not decide.
struct TileDoubt {
  std::uint8_t row;  ///< of the tile; kSettled: none any more
  std::uint8_t column;
  std::uint8_t added;  ///< products with lowest slices that `sum` has: kLowsOfA, kLowsOfB
  float next;          ///< what a's lists add, in 256 quanta
  double sum;          ///< of the products of slices, in quanta
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
/// Every output of the doubts: with what lists add, and where that does not decide, by
/// failed_outputs.  None where `wanted` is given and 0 on the device.
void settle_tile_doubts(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                        const ThreeSlices& b, const TileDoubts& doubts, const std::int32_t* wanted);

/// All outputs of the tiles `of`: first as few products as their K-vectors allow, then, of tiles
/// that it names in `again`, all but those of two lowest slices, but outputs of tiles that it names
/// in `hard`.
void multiply_by_three_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                              const KVectorMemory& b, const HardTiles& of, const HardTiles& again,
                              const HardTiles& hard);

}  // namespace mxo::cuda
