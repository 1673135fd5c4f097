// What a user's kernel gets from our headers when nvcc may fuse (--fmad=true, its default): the
// bits of the host.  Compiled anywhere, run where there is a device.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <mxoracle/exp.h>
#include <mxoracle/mx_block.h>
#include <mxoracle/scale_rules.h>

namespace {

using namespace mxo;

constexpr int kFunctions = 9;
constexpr std::uint32_t kInputs = 1u << 22;

template <FormatSpec S>
MXO_HD std::uint32_t sum_of_dequantized(std::uint32_t i) {
  const float y = i & 0x10000u ? -0x1p127f : 0x1.234568p-3f;
  return bit_cast<std::uint32_t>(dequantize_f32(Minifloat<S>{static_cast<std::uint8_t>(i)},
                                                E8M0{static_cast<std::uint8_t>(i >> 8)}) +
                                 y);
}

/// Function number `f` of input number `i`.
MXO_HD inline std::uint32_t result(int f, std::uint32_t i) {
  constexpr ScaleProfile ocp = kOcp;
  constexpr ScaleProfile te = kTransformerEngine;
  constexpr F32ScaleRule torchao = kTorchaoBlockwise;
  constexpr F32ScaleRule flow = kFlowBlockwise;
  const float x = bit_cast<float>(i * 1021u);
  const float amax = bit_cast<float>(i * 509u & 0x7FFFFFFFu);
  switch (f) {
    case 0: return bit_cast<std::uint32_t>(exp_rn(x));
    case 1: return bit_cast<std::uint32_t>(sigmoid_rn(x));
    case 2:
    case 3: {
      const DoublePair pair = exp_pair((static_cast<double>(i) - kInputs / 2) * 0x1.5p-15);
      return static_cast<std::uint32_t>(bit_cast<std::uint64_t>(f == 2 ? pair.high : pair.low));
    }
    case 4:
      return quantize_element<E4M3::spec>(x, shared_scale<E4M3::spec>(amax, ScaleMode::rceil, ocp))
          .bits;
    case 5: return shared_scale<E5M2::spec>(amax, ScaleMode::floor, te).bits;
    case 6: return sum_of_dequantized<E5M2::spec>(i);
    case 7:
      return bit_cast<std::uint32_t>(
          f32_scale<E4M3::spec>(amax, torchao, largest_finite<float>()).stored);
    default:
      return scale_element<E4M3::spec>(
                 x, f32_scale<E4M3::spec>(amax, flow, largest_finite<float>()).factor, flow.code)
          .bits;
  }
}

__global__ void all_results(std::uint32_t* results) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int f = 0; f < kFunctions; ++f)
    results[static_cast<std::size_t>(f) * kInputs + i] = result(f, i);
}

/// A NaN of any sign and payload as one.
std::uint32_t canonical(std::uint32_t word) {
  return (word & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : word;
}

}  // namespace

int main() {
  constexpr std::size_t kBytes = std::size_t{kFunctions} * kInputs * sizeof(std::uint32_t);
  std::uint32_t* device = nullptr;
  std::vector<std::uint32_t> found(kBytes / sizeof(std::uint32_t));
  if (cudaMalloc(&device, kBytes) != cudaSuccess) {
    std::puts("no CUDA device");
    return 77;
  }
  all_results<<<kInputs / 256, 256>>>(device);
  if (cudaMemcpy(found.data(), device, kBytes, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
  cudaFree(device);
  int failed = 0;
  for (int f = 0; f < kFunctions; ++f) {
    int wrong = 0;
    for (std::uint32_t i = 0; i < kInputs; ++i) {
      const std::uint32_t here = result(f, i);
      const std::uint32_t there = found[static_cast<std::size_t>(f) * kInputs + i];
      wrong += f == 6 ? canonical(here) != canonical(there) : here != there;
    }
    if (wrong > 0) std::printf("function %d: %d of %u results differ\n", f, wrong, kInputs);
    failed += wrong > 0;
  }
  std::printf("%d of %d functions PASSED\n", kFunctions - failed, kFunctions);
  return failed > 0 ? 1 : 0;
}
