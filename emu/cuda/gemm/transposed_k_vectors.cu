// Columns laid as K-vectors, a tile of 128 rows at a time.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/k_vector_memory.cuh"

namespace mxo::cuda {
namespace {

constexpr int kTransposedPlaces = 128;
constexpr int kTransposedBytes = 128;  ///< of neighbouring K-vectors in a tile
constexpr int kTransposeThreads = 256;

/// Tiles of 128 places x 128 bytes: 16 bytes of a row at a time on the way in, 32 places of a
/// K-vector on the way out.
template <typename Element>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_kernel(Problem p, Factor f, Index k_vectors, Index out_k_vector, Element* out,
                     const std::int32_t* wanted) {
  if (wanted != nullptr && (wanted[0] | wanted[1]) == 0) return;
  constexpr int kKVectors = kTransposedBytes / static_cast<int>(sizeof(Element));
  constexpr int kRun = 32;
  __shared__ uint4 tile[kTransposedPlaces][kTransposedBytes / 16 + 1];
  const Index across = (k_vectors + kKVectors - 1) / kKVectors;
  const Index of_group = out_k_vector / kTransposedPlaces;
  const Index chunks = f.k_is_rows ? Index{p.span[p.groups].packed} : p.groups * of_group;
  for (Index t = blockIdx.x; t < across * chunks; t += gridDim.x) {
    const Index k_vector0 = t % across * kKVectors;
    const Index chunk = t / across;
    const Index g = f.k_is_rows ? group_at(p, chunk, &GroupSpan::packed) : chunk / of_group;
    const GroupSpan& span = p.span[g];
    const Index first =
        (chunk - (f.k_is_rows ? Index{span.packed} : g * of_group)) * kTransposedPlaces;
    const Index places = f.k_is_rows ? Index{span.rows} : p.depth;
    const auto* from =
        static_cast<const Element*>(f.codes.data) + k_vector0 +
        (f.k_is_rows ? (span.start + first) * f.step : g * f.group_step + first * f.step);
    Element* to_group =
        out + (f.k_is_rows ? chunk * kTransposedPlaces : g * k_vectors * out_k_vector + first);
    for (int i = static_cast<int>(threadIdx.x); i < kTransposedPlaces * 8; i += kTransposeThreads) {
      const int place = i / 8;
      const int unit = i % 8 * (16 / static_cast<int>(sizeof(Element)));
      const bool there = first + place < places && k_vector0 + unit < k_vectors;
      tile[place][i % 8] =
          there ? *reinterpret_cast<const uint4*>(from + place * f.step + unit) : uint4{};
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kKVectors * (kTransposedPlaces / kRun);
         i += kTransposeThreads) {
      const int k_vector = i % kKVectors;
      const int place = i / kKVectors * kRun;
      if (k_vector0 + k_vector >= k_vectors) continue;
      alignas(16) Element run[kRun];
#pragma unroll
      for (int n = 0; n < kRun; ++n) {
        run[n] = reinterpret_cast<const Element*>(tile[place + n])[k_vector];
      }
      auto* to = reinterpret_cast<uint4*>(to_group + (k_vector0 + k_vector) * out_k_vector + place);
#pragma unroll
      for (int n = 0; n < static_cast<int>(sizeof(run) / 16); ++n) {
        to[n] = reinterpret_cast<const uint4*>(run)[n];
      }
    }
    __syncthreads();
  }
}

template <typename Element>
void transpose(DeviceBackend& backend, const Problem& p, const Factor& f,
               const KVectorMemory& memory, std::uint8_t* out, const std::int32_t* wanted) {
  const Index tiles = ceil_div(memory.k_vectors * memory.element_bytes, kTransposedBytes) *
                      (memory.length / kTransposedPlaces) * memory.groups;
  const auto blocks = static_cast<unsigned>(std::clamp<Index>(tiles, 1, Index{1} << 20));
  transpose_kernel<<<blocks, kTransposeThreads, 0, backend.stream()>>>(
      p, f, memory.k_vectors, memory.length, reinterpret_cast<Element*>(out), wanted);
  check_launch("transpose_kernel");
}

}  // namespace

bool can_transpose_k_vectors(const Factor& f, Index k_vectors) {
  const auto bytes = static_cast<Index>(size_of(f.codes.dtype));
  const auto aligned = [](Index n) { return n % 16 == 0; };
  return !f.rows_are_rows && f.row_step == 1 && f.step > 0 &&
         aligned(reinterpret_cast<Index>(f.codes.data)) && aligned(f.step * bytes) &&
         aligned(f.group_step * bytes) && aligned(k_vectors * bytes);
}

void transpose_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                         const KVectorMemory& memory, std::uint8_t* out,
                         const std::int32_t* wanted) {
  if (memory.element_bytes == 1) {
    transpose<std::uint8_t>(backend, p, f, memory, out, wanted);
  } else {
    transpose<std::uint16_t>(backend, p, f, memory, out, wanted);
  }
}

}  // namespace mxo::cuda
