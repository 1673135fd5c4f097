// Laying K-vectors along k, and the maps that describe them to the copy engine.
#include "emu/cuda/gemm/k_vector_memory.cuh"

#include <cuda_runtime.h>

#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "formats/mx_block.h"

namespace mxo::cuda {
namespace {

constexpr int kTile = 32;
constexpr unsigned kMaxBlocks = 1u << 20;

/// A tile of 32 K-vectors x 32 places; threads 32 x 8.  Reads along the axis whose stride is
/// smaller.
template <typename Element, typename Fetch>
__device__ void move_tile(Element (&tile)[kTile][kTile + 4 / sizeof(Element)], bool read_along_k,
                          Fetch fetch, Element* out, Index out_k_vector, Index k_vector0, Index k0,
                          Index k_vectors) {
  const int x = static_cast<int>(threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += 8) {
    const int i = read_along_k ? y : x;
    const int c = read_along_k ? x : y;
    tile[i][c] = k_vector0 + i < k_vectors ? fetch(k_vector0 + i, k0 + c) : Element{};
  }
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += 8) {
    if (k_vector0 + y < k_vectors) out[(k_vector0 + y) * out_k_vector + k0 + x] = tile[y][x];
  }
  __syncthreads();
}

/// K-vectors of all groups to out[g * k_vectors + i][c], or, where rows are contracted, to
/// out[i][128 * packed + c].  `fetch(g, i, c)` reads an element.
template <typename Element, typename Fetch>
__device__ void lay(const Problem& p, const Factor& f, Index k_vectors, Index out_k_vector,
                    Element* out, Fetch fetch) {
  __shared__ Element tile[kTile][kTile + 4 / sizeof(Element)];
  const Index across = out_k_vector / kTile;
  const Index groups = f.k_is_rows || f.rows_are_rows ? 1 : p.groups;
  const Index down = (k_vectors + kTile - 1) / kTile;
  const bool read_along_k = f.step <= f.row_step;
  for (Index t = blockIdx.x; t < across * down * groups; t += gridDim.x) {
    Index g = t / (across * down);
    const Index k_vector0 = t / across % down * kTile;
    const Index k0 = t % across * kTile;
    Index first = 0;  // place of k0 in its group
    if (f.k_is_rows) {
      if (k0 / 128 >= p.span[p.groups].packed) continue;
      g = group_at(p, k0 / 128, &GroupSpan::packed);
      first = k0 - Index{p.span[g].packed} * 128;
    }
    const Index length = f.k_is_rows ? Index{p.span[g].rows} : p.depth;
    const Index with_outputs = f.rows_are_rows ? Index{p.span[p.groups].start} : k_vectors;
    move_tile(
        tile, read_along_k,
        [&](Index i, Index at) {
          const Index c = f.k_is_rows ? at - k0 + first : at;
          return c < length && i < with_outputs ? fetch(g, i, c) : Element{};
        },
        out + (f.k_is_rows || f.rows_are_rows ? 0 : g * k_vectors * out_k_vector), out_k_vector,
        k_vector0, k0, k_vectors);
  }
}

/// Rows are counted from row 0 here, so that group 0 with start 0 addresses them.
__device__ Index code_offset(const Problem& p, const Factor& f, Index g, Index i, Index c) {
  return f.rows_are_rows ? i * f.row_step + c * f.step : p.code_at(f, g, i, c);
}
__device__ Index scale_offset(const Problem& p, const Factor& f, Index g, Index i, Index c) {
  return f.rows_are_rows ? i * f.scales_row_step + (c >> p.block_shift()) * f.scales_step
                         : p.scale_at(f, g, i, c);
}

template <typename Element>
__global__ void lay_kernel(Problem p, Factor f, Index k_vectors, Index out_k_vector, Element* out) {
  const auto* codes = static_cast<const Element*>(f.codes.data);
  lay(p, f, k_vectors, out_k_vector, out,
      [&](Index g, Index i, Index c) { return codes[code_offset(p, f, g, i, c)]; });
}

template <typename Code>
__global__ void dequantize_kernel(Problem p, Factor f, Index k_vectors, Index out_k_vector,
                                  std::uint16_t* out) {
  const auto* codes = static_cast<const Code*>(f.codes.data);
  const auto* scales = static_cast<const E8M0*>(f.scales.data);
  lay(p, f, k_vectors, out_k_vector, out, [&](Index g, Index i, Index c) {
    return dequantize_bf16(codes[code_offset(p, f, g, i, c)], scales[scale_offset(p, f, g, i, c)])
        .bits;
  });
}

/// The same where k runs through memory: sixteen elements of one block to a thread.
template <typename Code>
__global__ void dequantize_rows_kernel(Problem p, Factor f, Index k_vectors, Index groups,
                                       Index out_k_vector, uint4* out) {
  const Index steps = p.depth / 16;
  const Index all = groups * k_vectors * steps;
  for (Index t = blockIdx.x * Index{blockDim.x} + threadIdx.x; t < all;
       t += gridDim.x * Index{blockDim.x}) {
    const Index k_vector = t / steps;
    const Index c = (t - k_vector * steps) * 16;
    const Index g = groups == 1 ? 0 : k_vector / k_vectors;
    const Index i = k_vector - g * k_vectors;
    if (f.rows_are_rows && i >= p.span[p.groups].start) continue;
    const auto* codes =
        static_cast<const Code*>(f.codes.data) + g * f.group_step + i * f.row_step + c;
    const E8M0 scale = static_cast<const E8M0*>(
        f.scales
            .data)[g * f.scales_group_step + i * f.scales_row_step + c / kMxBlock * f.scales_step];
    const uint4 loaded = *reinterpret_cast<const uint4*>(codes);
    const std::uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    std::uint32_t pairs[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const std::uint32_t two = words[n / 2] >> n % 2 * 16;
      const Code low{static_cast<std::uint8_t>(two)};
      const Code high{static_cast<std::uint8_t>(two >> 8)};
      pairs[n] = dequantize_bf16(low, scale).bits | std::uint32_t{dequantize_bf16(high, scale).bits}
                                                        << 16;
    }
    uint4* to = out + (k_vector * out_k_vector + c) / 8;
    to[0] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    to[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
  }
}

/// Elements of a laid K-vector.
Index laid_length(const Problem& p, const Factor& f) {
  return f.k_is_rows ? round_up(p.depth, 128) + 128 * p.groups : round_up(p.depth, 128);
}

unsigned blocks_for(Index k_vectors, Index length, Index groups) {
  const Index tiles = ceil_div(k_vectors, kTile) * (length / kTile) * groups;
  return static_cast<unsigned>(std::min<Index>(std::max<Index>(tiles, 1), kMaxBlocks));
}

KVectorMemory laid(const Problem& p, const Factor& f, Index k_vectors, int element_bytes) {
  KVectorMemory memory;
  memory.k_vectors = k_vectors;
  memory.groups = f.k_is_rows || f.rows_are_rows ? 1 : p.groups;
  memory.element_bytes = element_bytes;
  memory.length = laid_length(p, f);
  memory.k_vector_bytes = memory.length * element_bytes;
  memory.group_bytes = memory.k_vector_bytes * k_vectors;
  return memory;
}

/// True if tiles can be copied from where the K-vectors lie: k runs through memory, 16-byte steps.
bool lies_ready(const Problem& p, const Factor& f, Index bytes) {
  const auto aligned = [](Index n) { return n % 16 == 0; };
  return !f.k_is_rows && f.step == 1 && f.row_step > 0 && f.row_step >= p.depth &&
         f.group_step >= 0 && f.group_step % f.row_step == 0 &&
         aligned(reinterpret_cast<Index>(f.codes.data)) && aligned(f.row_step * bytes) &&
         aligned(p.depth);
}

template <typename Element>
void lay_elements(DeviceBackend& backend, const Problem& p, const Factor& f,
                  const KVectorMemory& memory, std::uint8_t* out) {
  const unsigned blocks = blocks_for(memory.k_vectors, memory.length, memory.groups);
  lay_kernel<<<blocks, dim3(kTile, 8), 0, backend.stream()>>>(p, f, memory.k_vectors, memory.length,
                                                              reinterpret_cast<Element*>(out));
  check_launch("lay_kernel");
}

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// The driver's encoder, found at run time: the backend is not linked with the driver.
EncodeTiled encode_tiled() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found),
        "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess) {
    throw Error(Fault::unsupported, "cuda: the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(entry);
}

}  // namespace

KVectorMemory room_for_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                                 Index k_vectors, std::optional<Scratch<std::uint8_t>>& scratch) {
  KVectorMemory memory = laid(p, f, k_vectors, static_cast<int>(size_of(f.codes.dtype)));
  scratch.emplace(backend, memory.group_bytes * memory.groups);
  memory.data = scratch->data();
  return memory;
}

KVectorMemory lay_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                            Index k_vectors, std::optional<Scratch<std::uint8_t>>& scratch) {
  const auto bytes = static_cast<Index>(size_of(f.codes.dtype));
  if (lies_ready(p, f, bytes)) {
    KVectorMemory memory = laid(p, f, k_vectors, static_cast<int>(bytes));
    memory.data = static_cast<const std::uint8_t*>(f.codes.data);
    memory.length = p.depth;
    memory.k_vector_bytes = f.row_step * bytes;
    memory.group_bytes = f.group_step * bytes;
    return memory;
  }
  const KVectorMemory memory = room_for_k_vectors(backend, p, f, k_vectors, scratch);
  if (can_transpose_k_vectors(f, k_vectors)) {
    transpose_k_vectors(backend, p, f, memory, scratch->data(), nullptr);
  } else if (bytes == 1) {
    lay_elements<std::uint8_t>(backend, p, f, memory, scratch->data());
  } else {
    lay_elements<std::uint16_t>(backend, p, f, memory, scratch->data());
  }
  return memory;
}

KVectorMemory lay_dequantized_k_vectors(DeviceBackend& backend, const Problem& p, const Factor& f,
                                        Index k_vectors,
                                        std::optional<Scratch<std::uint8_t>>& scratch) {
  KVectorMemory memory = laid(p, f, k_vectors, 2);
  scratch.emplace(backend, memory.group_bytes * memory.groups);
  memory.data = scratch->data();
  const unsigned blocks = blocks_for(k_vectors, memory.length, memory.groups);
  const bool ready = lies_ready(p, f, 1);
  if (ready) memory.length = p.depth;  // beyond it the copy engine gives zeros
  visit_minifloat8(f.codes.dtype, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    if (ready) {
      dequantize_rows_kernel<Code><<<blocks, 256, 0, backend.stream()>>>(
          p, f, k_vectors, memory.groups, memory.k_vector_bytes / 2,
          reinterpret_cast<uint4*>(scratch->data()));
      return;
    }
    dequantize_kernel<Code><<<blocks, dim3(kTile, 8), 0, backend.stream()>>>(
        p, f, k_vectors, memory.length, reinterpret_cast<std::uint16_t*>(scratch->data()));
  });
  check_launch("dequantize_kernel");
  return memory;
}

CUtensorMap tile_map(const std::uint8_t* data, int element_bytes, Index length, Index k_vectors,
                     Index k_vector_bytes, Index depth, Index depth_bytes, int rows) {
  static const EncodeTiled encode = encode_tiled();
  const auto extent = [](Index n) { return static_cast<cuuint64_t>(std::max<Index>(n, 1)); };
  const auto step = [](Index n) { return static_cast<cuuint64_t>(std::max<Index>(n, 16)); };
  const cuuint64_t extents[3] = {extent(length), extent(k_vectors), extent(depth)};
  const cuuint64_t strides[2] = {step(k_vector_bytes), step(std::max(k_vector_bytes, depth_bytes))};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(128 / element_bytes),
                             static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t ones[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult status = encode(
      &map, element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 3,
      const_cast<std::uint8_t*>(data), extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw Error(Fault::internal,
                "cuda: cuTensorMapEncodeTiled: status " + std::to_string(static_cast<int>(status)));
  }
  return map;
}

}  // namespace mxo::cuda
