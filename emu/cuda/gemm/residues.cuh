// K-vectors of the exact product as integers of any size, and their residues modulo numbers of
// eight bits.
//
// A K-vector gets a quantum q and becomes integers v: an element is v * 2^q and a residual of at
// most half a quantum.  Where moduli allow it, q is the last place of its least set bit and there
// are no residuals.  The residues of all elements by one modulus lie together, as int8.
#pragma once

#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/exact/residues.h"

namespace mxo::cuda {

/// Most moduli of a problem: what the residuals of integers so large leave open of a bf16 is
/// little.
inline int most_moduli(const Problem& p) { return p.out.dtype == Dtype::f32 ? kModuli : 14; }

/// Elements that share a norm.
inline constexpr Index kNormed = 32;
/// True if norms of blocks bound what residuals add: blocks differ, K-vectors lie one by one, and
/// their sums lose less than the percent by which norms are raised.
__host__ __device__ inline bool has_norms(const Problem& p) {
  return (p.form == ScaleForm::mx || p.form == ScaleForm::none) && !p.contracts_rows() &&
         p.depth <= Index{1} << 20;
}

/// The K-vectors of a factor as integers, and on the device the greatest reach of any.
struct IntegerKVectors : KnownKVectors {
  const std::int32_t* reach;
  /// Of every window, where has_norms(): for each block of 32 a pair of bf16, whose products of a
  /// K-vector of a and one of b add up to at least what residuals add to theirs.
  KVectorMemory norms;
};

/// Memory that IntegerKVectors refers to.
struct IntegerScratch {
  std::optional<Scratch<KVectorWindow>> window;
  std::optional<Scratch<std::int32_t>> reach;
  std::optional<Scratch<std::uint32_t>> norms;
};

/// Measures `f`, whose K-vectors are laid in `codes`, unless `wanted` is given and 0 on the device.
IntegerKVectors measure_integers(DeviceBackend& backend, const Problem& p, const Factor& f,
                                 const KVectorMemory& codes, const std::int32_t* wanted,
                                 IntegerScratch& scratch);

/// Neighbouring K-vectors as they lie in memory, some of a factor's.
struct Band {
  Index first;
  Index count;
  __device__ bool has(Index k_vector) const {
    return k_vector >= first && k_vector < first + count;
  }
};

/// Residues of a band's K-vectors and of kBeyondBand after it: those by modulus n start
/// n * group_bytes after the first.
struct Residues {
  KVectorMemory memory;
  std::uint8_t* data;
  Band band;
};
inline constexpr Index kBeyondBand = 255;

/// Fills `to` with the residues that products of `of` and `other` take; of weights alone those that
/// meet rows of `met`.
void make_residues(DeviceBackend& backend, const Problem& p, const Factor& f,
                   const IntegerKVectors& of, const IntegerKVectors& other, const Band& met,
                   const std::int32_t* wanted, const Residues& to);

/// Every output that passes the rounding test, of hard tiles alone; the others are marked in
/// `failed` and left alone.
void multiply_by_residues(DeviceBackend& backend, const Problem& p, const IntegerKVectors& a,
                          const IntegerKVectors& b, const FailedOutputs& failed,
                          const HardTiles& hard);

}  // namespace mxo::cuda
