// K-vectors of a factor laid next to each other along k, as copies of whole tiles need them.
#pragma once

#include <cuda.h>

#include <optional>

#include "emu/cuda/gemm/problem.cuh"

namespace mxo::cuda {

/// Codes of one factor: K-vector i of group g starts at data + g * group_bytes + i *
/// k_vector_bytes, plus 128 * span[g].packed elements where the rows are contracted.
struct KVectorMemory {
  const std::uint8_t* data = nullptr;
  Index k_vectors = 0;  ///< of a group
  Index groups = 1;
  Index k_vector_bytes = 0;
  Index group_bytes = 0;
  int element_bytes = 1;
  Index length = 0;  ///< elements of a K-vector, all groups of a contracted axis together
};

/// The K-vectors of `f`: where they lie if tiles can be copied from there, else a copy in
/// `scratch`, groups of contracted rows padded with zeros to multiples of 128.
KVectorMemory lay_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                            Index k_vectors, std::optional<Scratch<std::uint8_t>>& scratch);
/// Memory for such a copy.
KVectorMemory room_for_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                                 Index k_vectors, std::optional<Scratch<std::uint8_t>>& scratch);
/// The same with e8m0 scales folded in: bf16, rounded to nearest even.
KVectorMemory lay_dequantized_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                                        Index k_vectors,
                                        std::optional<Scratch<std::uint8_t>>& scratch);

/// K-vectors whose elements are neighbours across them, in steps of 16 bytes, can be laid a whole
/// tile at a time: contracted rows, or transposed weights; transpose_k_vectors() does.
bool can_transpose_k_vectors(const Factor& f, Index k_vectors);
/// Unless `wanted` is given and both its numbers on the device are 0.
void transpose_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                         const KVectorMemory& memory, std::uint8_t* out,
                         const std::int32_t* wanted);

/// The boxes of `rows` K-vectors of 128 bytes for copies of tiles: axes k, K-vector, depth.  Bytes,
/// or elements of two bytes.
CUtensorMap tile_map(const std::uint8_t* data, int element_bytes, Index length, Index k_vectors,
                     Index k_vector_bytes, Index depth, Index depth_bytes, int rows);

}  // namespace mxo::cuda
