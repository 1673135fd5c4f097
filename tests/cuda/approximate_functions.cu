// Approximate instructions of the device against formats/approximate.h, operand by operand.
#include "tests/cuda/approximate_functions.h"

#include <stdexcept>

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"

namespace mxo::test {
namespace {

__device__ float instruction(Approximate function, float x) {
  float y = 0;
  switch (function) {
    case Approximate::rcp_ftz: asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::rsqrt_ftz:
      asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      break;
    case Approximate::sqrt_ftz:
      asm volatile("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      break;
    case Approximate::ex2_ftz: asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::rcp: asm volatile("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::rsqrt: asm volatile("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::sqrt: asm volatile("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::ex2: asm volatile("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::lg2_ftz: asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::lg2: asm volatile("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Approximate::tanh: asm volatile("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
  }
  return y;
}

__device__ float ours(Approximate function, float x) {
  switch (function) {
    case Approximate::rcp_ftz: return rcp_approx_ftz(x);
    case Approximate::rsqrt_ftz: return rsqrt_approx_ftz(x);
    case Approximate::sqrt_ftz: return sqrt_approx_ftz(x);
    case Approximate::ex2_ftz: return ex2_approx_ftz(x);
    case Approximate::rcp: return rcp_approx(x);
    case Approximate::rsqrt: return rsqrt_approx(x);
    case Approximate::sqrt: return sqrt_approx(x);
    case Approximate::ex2: return ex2_approx(x);
    case Approximate::lg2_ftz: return lg2_approx_ftz(x);
    case Approximate::lg2: return lg2_approx(x);
    case Approximate::tanh: return tanh_approx(x);
  }
  return 0;
}

__global__ void count_floats(Approximate function, unsigned long long* differing) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i >> 32 == 0;
       i += step) {
    const float x = bit_cast<float>(static_cast<std::uint32_t>(i));
    mine += bit_cast<std::uint32_t>(instruction(function, x)) !=
            bit_cast<std::uint32_t>(ours(function, x));
  }
  if (mine != 0) atomicAdd(differing, mine);
}

/// A word of splitmix64.
__device__ std::uint32_t random_word(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 16);
}

__global__ void count_quotients(std::int64_t count, unsigned long long* differing) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const float a = bit_cast<float>(random_word(2 * static_cast<std::uint64_t>(i)));
    const float b = bit_cast<float>(random_word(2 * static_cast<std::uint64_t>(i) + 1));
    float q = 0;
    asm volatile("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
    const float p = div_full(a, b);
    mine += bit_cast<std::uint32_t>(p) != bit_cast<std::uint32_t>(q) && (p == p || q == q);
  }
  if (mine != 0) atomicAdd(differing, mine);
}

template <typename Launch>
std::int64_t counted(Launch launch) {
  unsigned long long* differing = nullptr;
  unsigned long long host = 0;
  cudaMallocManaged(&differing, sizeof(*differing));
  *differing = 0;
  launch(differing);
  const cudaError_t status = cudaDeviceSynchronize();
  host = *differing;
  cudaFree(differing);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return static_cast<std::int64_t>(host);
}

}  // namespace

std::int64_t differing(Approximate function) {
  return counted([&](auto* found) { count_floats<<<2112, 256>>>(function, found); });
}

std::int64_t differing_quotients(std::int64_t count) {
  return counted([&](auto* found) { count_quotients<<<2112, 256>>>(count, found); });
}

}  // namespace mxo::test
