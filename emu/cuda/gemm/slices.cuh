// K-vectors of the exact product as integers, written in signed slices of eight bits.
//
// A K-vector gets a quantum q and becomes integers v: an element is v * 2^q and a residual of at
// most half a quantum.  Where the K-vector allows it, q is the last place of its least set bit and
// there are no residuals.  v is written as d0 + 256 d1 + 256^2 d2 + .., each slice in [-128, 127];
// slice n of all elements lies together, as int8 (Ozaki's scheme).
#pragma once

#include "emu/cuda/gemm/k_vector_memory.cuh"

namespace mxo::cuda {

/// Longest K-vector; longer ones are left to fixed point.
inline constexpr Index kMaxK = Index{1} << 20;

/// What is known of a K-vector; all but `quantum` and `slices` in units of 2^q.
struct KVectorWindow {
  std::int32_t quantum;  ///< q
  std::int32_t slices;   ///< of its integers; of residues 8 log2(norm), rounded up; kBeyond for
                         ///< none, 0 for a K-vector of zeros
  float norm;            ///< at least the Euclidean norms of the K-vector and of its integers
  float peak;            ///< at least the magnitude of every element and of every integer
  float residual;        ///< at least the Euclidean norm of the residuals; 0: there are none
  float residual_sum;    ///< at least the sum of their magnitudes
};
/// Slices of a K-vector with a NaN or an infinity, or of more than kMaxK elements.
inline constexpr std::int32_t kBeyond = 1 << 16;

/// At least the difference between the product of two K-vectors and that of their integers.
__device__ inline float residual_bound(const KVectorWindow& a, const KVectorWindow& b) {
  const float of_a = fminf(a.residual * b.norm, a.residual_sum * b.peak);
  const float of_b = fminf(b.residual * a.norm, b.residual_sum * a.peak);
  return (of_a + of_b) * 1.0001f;
}

/// All K-vectors of a factor, and what is known of each.
struct KnownKVectors {
  KVectorMemory codes;
  const KVectorWindow* window = nullptr;  ///< of every K-vector: g * k_vectors + i
};

/// Their slices.
struct Slices : KnownKVectors {
  KVectorMemory memory;  ///< of slice 0, bytes; slice n starts n * group_bytes later
  int depth = 0;         ///< slices that there is memory for
};

/// Memory that Slices refers to.
struct SliceScratch {
  std::optional<Scratch<std::uint8_t>> slices;
  std::optional<Scratch<KVectorWindow>> window;
};

/// Memory for `depth` slices of `f`, whose K-vectors are laid in `codes`, `k_vectors` of each group
/// (rows of all groups, where K-vectors are rows); returns how many windows there are.
Index make_slice_memory(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, int depth, Slices& made,
                        SliceScratch& scratch);

}  // namespace mxo::cuda
