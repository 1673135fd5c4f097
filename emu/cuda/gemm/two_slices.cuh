// K-vectors of 8-bit codes as integers of two slices, and lists of what the integers leave: all
// that most products need.  Scales of blocks of 128 stay apart: each run's product is scaled.
// docs/exact_product.md, Products on a device, Two slices.
#pragma once

#include <cuda_fp16.h>

#include "emu/cuda/gemm/exact_product.cuh"

namespace mxo::cuda {

/// Residuals that lists hold.
inline constexpr int kMaxResiduals = 60;
inline constexpr std::int32_t kManyResiduals = kBeyond + 1;
/// The number of three slices with so many lowest ones that tiles take their products.
inline constexpr std::int32_t kManyLows = 4;
/// What a product has of them.
inline constexpr int kLowsOfA = 1;
inline constexpr int kLowsOfB = 2;

/// Scales of runs whose products with each other and with residuals are normal numbers of binary32;
/// none below 0, for which sums in high words lie on the other side.
inline constexpr float kLeastScale = 0x1p-30f;
inline constexpr float kGreatestScale = 0x1p30f;

/// What the integer of element `place` leaves of it, in quanta: exact, four bits of significand.
struct Residual {
  std::uint16_t place;
  BF16 value;
};
/// A K-vector's residuals: how many, the sum of their magnitudes or more, scales of runs included,
/// and what its window says.
struct ResidualsHead {
  std::int32_t quantum;
  std::int32_t slices;
  float sum;
  std::int32_t count;
};
struct alignas(16) Residuals : ResidualsHead {
  Residual item[kMaxResiduals];
};
__device__ inline ResidualsHead head_of(const Residuals& of) {
  const int4 head = *reinterpret_cast<const int4*>(&of);
  return {head.x, head.y, __int_as_float(head.z), head.w};
}

/// Scales of runs of 128 side by side: the run's line, tiles of 128 K-vectors one after the other;
/// zeros of K-vectors there are not.  None: the integers hold the scales, or the results get them.
struct RunScales {
  const float* data = nullptr;
  Index line = 0;
};

/// Two slices of every K-vector.  Their windows have kManyResiduals in place of a number of slices
/// where residuals are too many.  Where runs have scales, norm and peak are those of scaled
/// elements, and in place of the residuals' norm and sum stand the greatest scale and the norm of
/// the integers of any run.
struct TwoSlices {
  Slices slices;
  const Residuals* residuals = nullptr;  ///< of each window
  RunScales scales;
  std::uint8_t* high_lines = nullptr;      ///< the high slices side by side, if they were made so
  const std::int32_t* given_up = nullptr;  ///< not 0: there are none
};
struct TwoSliceScratch {
  SliceScratch slices;
  std::optional<Scratch<Residuals>> residuals;
  std::optional<Scratch<float>> scales;
  std::optional<Scratch<std::uint8_t>> lines;
};

/// True if a product may be tried with two slices.
bool takes_two_slices(const Problem& p);
/// True if three slices take what two leave, or, of bf16 elements, are tried first.
__host__ __device__ inline bool takes_three_slices(const Problem& p) {
  const bool wide = p.a.codes.dtype == Dtype::bf16 && p.b.codes.dtype == Dtype::bf16;
  const bool scaled =
      p.form == ScaleForm::mx && p.a.codes.dtype != Dtype::bf16 && p.b.codes.dtype != Dtype::bf16;
  return p.out.dtype == Dtype::bf16 && ((p.form == ScaleForm::none && wide) || scaled);
}
/// Residuals that a K-vector may have; one that has more is left to more slices.  Adding those of 1
/// element in 128 takes as long as two more products of slices.
__host__ __device__ inline int most_residuals(const Problem& p, Index length) {
  if (!takes_three_slices(p)) return kMaxResiduals;
  const Index most = length / 128;
  return most < 24 ? 24 : most > kMaxResiduals ? kMaxResiduals : static_cast<int>(most);
}
/// The scales of `f`, p.a or p.b itself, which are of runs.
RunScales lay_run_scales(DeviceBackend& backend, const Problem& p, const Factor& f,
                         std::optional<Scratch<float>>& scratch);
/// Takes `f` apart, p.a or p.b itself, whose K-vectors are laid in `codes`; not where `given_up` is
/// given and not 0 on the device.
TwoSlices make_two_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                          const KVectorMemory& codes, Index k_vectors, TwoSliceScratch& scratch,
                          const std::int32_t* given_up = nullptr);
/// What is found of a few K-vectors of a factor: how many there are, and how many of these have
/// more residuals than they may.
struct Look {
  std::int32_t all;
  std::int32_t many;
};
/// Adds to `look` what a look at `f` finds, whose K-vectors are laid in `codes`.
void look_at(DeviceBackend& backend, const Problem& p, const Factor& f, const KVectorMemory& codes,
             Index k_vectors, Look* look);
/// If most of the K-vectors that either of two looks found have too many residuals, makes all tiles
/// hard and sets `given_up`.
void give_up_hopeless(DeviceBackend& backend, const Look* looks, const HardTiles& hard, Index tiles,
                      std::int32_t* given_up);
/// The same from where K-vectors lie side by side, without their codes in `codes`, where
/// takes_columns().
bool takes_columns(const Problem& p, const Factor& f, Index k_vectors);
TwoSlices slice_columns(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, TwoSliceScratch& scratch);

/// An output whose rounding the corrections do not decide: the product of its K-vectors' integers,
/// if these hold the scales.
struct Doubt {
  std::uint32_t a;  ///< window of its K-vector of a; kNoDoubt: there is none
  std::uint32_t b;
  double sum;
};
inline constexpr std::uint32_t kNoDoubt = 0xFFFFFFFFu;
struct Doubts {
  Doubt* list;
  unsigned long long capacity;
  unsigned long long* count;  ///< asked for; what is beyond `capacity` is not there
  std::int32_t* left;         ///< 1: residuals do not decide all of them
};

/// What residuals add to each output, tiles of 128 x 128 one after the other; nothing of hard
/// tiles.
struct Corrections {
  static constexpr Index kTile = 128 * 128;
  const __half* by_high_slices;  ///< of outputs in bf16, in 256 quanta
  const float* by_integers;      ///< of outputs in f32, in quanta: exact, or NaN; if runs have
                                 ///< scales of all outputs, those included: rounded, or NaN
  /// Number of the tile, and where an output of it is: neighbouring rows in other banks of shared
  /// memory, as the threads of a warp read them.
  __device__ static Index place(const Problem& p, Index group, Index row, Index column) {
    const Index down =
        p.contracts_rows() ? group * ((p.a.rows + 127) / 128) : Index{p.span[group].row_tile};
    return (down + row / 128) * ((p.b.rows + 127) / 128) + column / 128;
  }
  __device__ static int at(int row, int column) { return row * 128 + (column ^ (row & 7) * 8); }
};
/// Whether K is short enough for them: below 8 million places of all groups.
bool has_room_for_corrections(const Problem& p);
Corrections make_corrections(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                             const TwoSlices& b, std::optional<Scratch<std::uint8_t>>& scratch);

/// Every output that passes the rounding test; the others go to `doubts`, or their tile to `hard`.
void multiply_two_slices(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                         const TwoSlices& b, const Corrections& corrections, const Doubts& doubts,
                         const HardTiles& hard);
/// The same where runs have scales.
void multiply_scaled_runs(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                          const TwoSlices& b, const Corrections& corrections, const Doubts& doubts,
                          const HardTiles& hard);
/// The outputs of `doubts`, where the integers hold the scales: with all that residuals add.
void settle_by_residuals(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                         const TwoSlices& b, const Doubts& doubts);
/// Those that are left, from their codes: in binary64, and where that fails, too, in fixed point.
void settle_from_codes(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                       const TwoSlices& b, const Doubts& doubts);

}  // namespace mxo::cuda
