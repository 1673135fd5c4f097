// Columns laid as K-vectors, a tile of 128 rows at a time.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/k_vector_memory.cuh"

namespace mxo::cuda {
namespace {

constexpr int kTransposedPlaces = 128;
constexpr int kTransposedBytes = 128;  ///< of neighbouring K-vectors in a tile
constexpr int kTransposeThreads = 256;

/// A tile of 128 places x 64 K-vectors of two bytes: places from `from` on, `step` elements apart,
/// to K-vectors `out_step` apart; zeros beyond `places`.
struct PairTile {
  const std::uint16_t* from;
  Index step;
  Index places;
  Index k_vectors;
  std::uint16_t* out;
  Index out_step;
};
/// Two places of eight K-vectors to a thread on the way in, words of both in shared memory; eight
/// places on the way out, K-vectors whole.
__device__ void transpose_pairs(const PairTile& tile, std::uint32_t* words) {
  constexpr int kPitch = kTransposedPlaces / 2 + 1;
  const int thread = static_cast<int>(threadIdx.x);
  const int unit = thread % 8 * 8;
  uint4 rows[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int place = (thread / 8 + i * 32) * 2 + n;
      const bool there = place < tile.places && unit < tile.k_vectors;
      rows[i][n] =
          there ? *reinterpret_cast<const uint4*>(tile.from + place * tile.step + unit) : uint4{};
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    std::uint32_t* to = words + unit * kPitch + thread / 8 + i * 32;
    const auto put = [&](int n, std::uint32_t first, std::uint32_t second) {
      to[n * kPitch] = __byte_perm(first, second, 0x5410);
      to[(n + 1) * kPitch] = __byte_perm(first, second, 0x7632);
    };
    put(0, rows[i][0].x, rows[i][1].x);
    put(2, rows[i][0].y, rows[i][1].y);
    put(4, rows[i][0].z, rows[i][1].z);
    put(6, rows[i][0].w, rows[i][1].w);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int k_vector = thread / 16 + i * 16;
    const std::uint32_t* of = words + k_vector * kPitch + thread % 16 * 4;
    if (k_vector >= tile.k_vectors) continue;
    *reinterpret_cast<uint4*>(tile.out + k_vector * tile.out_step + thread % 16 * 8) = {
        of[0], of[1], of[2], of[3]};
  }
}

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
    const Index chunk = static_cast<std::uint32_t>(t) / static_cast<std::uint32_t>(across);
    const Index k_vector0 = (t - chunk * across) * kKVectors;
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
    if constexpr (sizeof(Element) == 2) {
      transpose_pairs({from, f.step, places - first, k_vectors - k_vector0,
                       to_group + k_vector0 * out_k_vector, out_k_vector},
                      reinterpret_cast<std::uint32_t*>(tile));
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < kTransposedPlaces * 8;
           i += kTransposeThreads) {
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
        auto* to =
            reinterpret_cast<uint4*>(to_group + (k_vector0 + k_vector) * out_k_vector + place);
#pragma unroll
        for (int n = 0; n < static_cast<int>(sizeof(run) / 16); ++n) {
          to[n] = reinterpret_cast<const uint4*>(run)[n];
        }
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
