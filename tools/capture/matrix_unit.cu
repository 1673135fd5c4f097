// Kernels of one wgmma or mma.sync each, operands laid out as the PTX ISA asks.
#include <cuda_runtime.h>

#include "tools/capture/cuda_call.h"
#include "tools/capture/matrix_unit.cuh"

namespace mxo::capture {
namespace {

/// Shared-memory matrix descriptor without swizzle: 8 x 16-byte core matrices, those next to
/// each other along k 128 bytes apart, along rows 256 (PTX ISA, wgmma matrix descriptor).
__device__ std::uint64_t descriptor(const void* shared) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(shared));
  return (address >> 4 & 0x3FFF) | std::uint64_t{128 >> 4} << 16 | std::uint64_t{256 >> 4} << 32;
}

/// Copies `rows` rows of 32 bytes into core matrices.
__device__ void stage(std::uint8_t* shared, const std::uint8_t* rows_of_32, int rows) {
  for (int i = threadIdx.x; i < rows * 32; i += blockDim.x) {
    const int row = i / 32;
    const int byte = i % 32;
    shared[(row / 8 * 2 + byte / 16) * 128 + row % 8 * 16 + byte % 16] = rows_of_32[i];
  }
}

#define MXO_WGMMA_F32(text)                                     \
  asm volatile("wgmma.mma_async.sync.aligned." text             \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
               : "l"(da), "l"(db))
#define MXO_WGMMA_F16(text) \
  asm volatile("wgmma.mma_async.sync.aligned." text : "+r"(d[0]), "+r"(d[1]) : "l"(da), "l"(db))

template <Unit U>
__device__ void wgmma(std::uint32_t (&d)[4], std::uint64_t da, std::uint64_t db) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if constexpr (U == Unit::wgmma_e4m3)
    MXO_WGMMA_F32("m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, %4, %5, 1, 1, 1;");
  if constexpr (U == Unit::wgmma_e5m2_e4m3)
    MXO_WGMMA_F32("m64n8k32.f32.e5m2.e4m3 {%0,%1,%2,%3}, %4, %5, 1, 1, 1;");
  if constexpr (U == Unit::wgmma_e4m3_f16)
    MXO_WGMMA_F16("m64n8k32.f16.e4m3.e4m3 {%0,%1}, %2, %3, 1, 1, 1;");
  if constexpr (U == Unit::wgmma_e5m2_e4m3_f16)
    MXO_WGMMA_F16("m64n8k32.f16.e5m2.e4m3 {%0,%1}, %2, %3, 1, 1, 1;");
  if constexpr (U == Unit::wgmma_bf16)
    MXO_WGMMA_F32("m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;");
  if constexpr (U == Unit::wgmma_f16)
    MXO_WGMMA_F32("m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;");
  if constexpr (U == Unit::wgmma_f16_f16)
    MXO_WGMMA_F16("m64n8k16.f16.f16.f16 {%0,%1}, %2, %3, 1, 1, 1, 0, 0;");
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#undef MXO_WGMMA_F32
#undef MXO_WGMMA_F16

/// Words of c or d that a thread holds: rows r and r + 8, columns 2 * (lane % 4) and the next.
/// f32 takes four words, f16 two of two columns each.
template <typename Move>
__device__ void for_fragment(int result_bytes, Move move) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp * 16 + lane / 4;
  const int column = lane % 4 * 2;
  if (result_bytes == 4) {
    for (int i = 0; i < 4; ++i) move(i, (row + i / 2 * 8) * 8 + column + i % 2);
  } else {
    for (int i = 0; i < 2; ++i) move(i, ((row + i * 8) * 8 + column) / 2);
  }
}

template <Unit U>
__global__ void wgmma_kernel(const std::uint8_t* a, const std::uint8_t* b, const std::uint32_t* c,
                             std::uint32_t* out) {
  constexpr UnitShape s = kUnits[static_cast<int>(U)];
  __shared__ alignas(128) std::uint8_t shared_a[64 * 32];
  __shared__ alignas(128) std::uint8_t shared_b[8 * 32];
  stage(shared_a, a + blockIdx.x * sizeof shared_a, 64);
  stage(shared_b, b + blockIdx.x * sizeof shared_b, 8);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();

  const std::size_t words = 64 * 8 * s.result_bytes / 4;
  std::uint32_t d[4] = {};
  const std::uint32_t* from = c + blockIdx.x * words;
  std::uint32_t* to = out + blockIdx.x * words;
  for_fragment(s.result_bytes, [&](int i, int word) { d[i] = from[word]; });
  wgmma<U>(d, descriptor(shared_a), descriptor(shared_b));
  for_fragment(s.result_bytes, [&](int i, int word) { to[word] = d[i]; });
}

/// One warp.  Fragments of m16n8k32 (8 bit) and m16n8k16 (16 bit) agree byte for byte: a holds
/// rows g and g + 8, bytes 4t.. and 16 + 4t..; b holds column g, the same bytes (PTX ISA, mma).
template <Unit U>
__global__ void mma_sync_kernel(const std::uint32_t* a, const std::uint32_t* b,
                                const std::uint32_t* c, std::uint32_t* out) {
  constexpr UnitShape s = kUnits[static_cast<int>(U)];
  const int g = static_cast<int>(threadIdx.x) / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  a += blockIdx.x * 16 * 8;  // rows of 32 bytes are 8 words
  b += blockIdx.x * 8 * 8;
  const std::uint32_t fa[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + 4 + t],
                               a[(g + 8) * 8 + 4 + t]};
  const std::uint32_t fb[2] = {b[g * 8 + t], b[g * 8 + 4 + t]};
  const std::size_t words = 16 * 8 * s.result_bytes / 4;
  std::uint32_t d[4] = {};
  for_fragment(s.result_bytes, [&](int i, int word) {
    d[i] = c[blockIdx.x * words + static_cast<unsigned>(word)];
  });
  if constexpr (U == Unit::mma_sync_e4m3)
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  if constexpr (U == Unit::mma_sync_e4m3_f16)
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 "
        "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  if constexpr (U == Unit::mma_sync_bf16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  for_fragment(s.result_bytes, [&](int i, int word) {
    out[blockIdx.x * words + static_cast<unsigned>(word)] = d[i];
  });
}

template <Unit U>
void launch(int tests, const void* a, const void* b, const void* c, void* d) {
  const auto* words_c = static_cast<const std::uint32_t*>(c);
  auto* words_d = static_cast<std::uint32_t*>(d);
  if constexpr (kUnits[static_cast<int>(U)].rows == 64) {
    wgmma_kernel<U><<<tests, 128>>>(static_cast<const std::uint8_t*>(a),
                                    static_cast<const std::uint8_t*>(b), words_c, words_d);
  } else {
    mma_sync_kernel<U><<<tests, 32>>>(static_cast<const std::uint32_t*>(a),
                                      static_cast<const std::uint32_t*>(b), words_c, words_d);
  }
  check(cudaGetLastError(), "kernel launch");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace

void run_unit(Unit unit, int tests, const void* a, const void* b, const void* c, void* d) {
  switch (unit) {
    case Unit::wgmma_e4m3: return launch<Unit::wgmma_e4m3>(tests, a, b, c, d);
    case Unit::wgmma_e5m2_e4m3: return launch<Unit::wgmma_e5m2_e4m3>(tests, a, b, c, d);
    case Unit::wgmma_e4m3_f16: return launch<Unit::wgmma_e4m3_f16>(tests, a, b, c, d);
    case Unit::wgmma_e5m2_e4m3_f16: return launch<Unit::wgmma_e5m2_e4m3_f16>(tests, a, b, c, d);
    case Unit::wgmma_bf16: return launch<Unit::wgmma_bf16>(tests, a, b, c, d);
    case Unit::wgmma_f16: return launch<Unit::wgmma_f16>(tests, a, b, c, d);
    case Unit::wgmma_f16_f16: return launch<Unit::wgmma_f16_f16>(tests, a, b, c, d);
    case Unit::mma_sync_e4m3: return launch<Unit::mma_sync_e4m3>(tests, a, b, c, d);
    case Unit::mma_sync_e4m3_f16: return launch<Unit::mma_sync_e4m3_f16>(tests, a, b, c, d);
    case Unit::mma_sync_bf16: return launch<Unit::mma_sync_bf16>(tests, a, b, c, d);
  }
}

}  // namespace mxo::capture
