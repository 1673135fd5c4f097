// What the approximate functions of the chip return, for every operand of an interval.
#include "tools/capture/approximate_functions.h"

#include <cstdint>
#include <string>

#include "formats/host_device.h"
#include "golden/files/output_file.h"
#include "tools/capture/cuda_call.h"

namespace mxo::capture {
namespace {

enum class Function : std::uint8_t { rcp, rsqrt, sqrt, ex2, lg2, tanh };

struct Interval {
  Function function;
  const char* name;
  std::uint32_t first;  ///< bits of the first operand; of ex2 the operands are i 2^-23
  std::uint32_t count;
};

constexpr std::uint32_t kBinade = 1u << 23;
constexpr Interval kIntervals[] = {
    {Function::rcp, "rcp", 0x3F800000u, kBinade},
    {Function::rsqrt, "rsqrt", 0x3F800000u, 2 * kBinade},
    {Function::sqrt, "sqrt", 0x3F800000u, 2 * kBinade},
    {Function::ex2, "ex2", 0, kBinade},
    {Function::lg2, "lg2", 0x3F800000u, kBinade},
    {Function::tanh, "tanh", 0x3B800000u, 11 * kBinade},
};

__device__ float instruction(Function function, float x) {
  float y = 0;
  switch (function) {
    case Function::rcp: asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Function::rsqrt: asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Function::sqrt: asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Function::ex2: asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Function::lg2: asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case Function::tanh: asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
  }
  return y;
}

__global__ void results(Interval of, std::uint32_t* y) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= of.count) return;
  const float x = of.function == Function::ex2 ? static_cast<float>(i) * 0x1p-23f
                                               : bit_cast<float>(of.first + i);
  y[i] = bit_cast<std::uint32_t>(instruction(of.function, x));
}

/// The header of a .npy of `count` u32: 128 bytes.
std::string npy_header(std::uint32_t count) {
  std::string text =
      "{'descr': '<u4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  text.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + "\n";
}

}  // namespace

void write_approximate_functions(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  for (const Interval& interval : kIntervals) {
    const DeviceArray<std::uint32_t> y(interval.count);
    results<<<interval.count / 256, 256>>>(interval, y.data());
    check(cudaGetLastError(), interval.name);
    const std::vector<std::uint32_t> bits = y.host();
    OutputFile file(directory / (std::string(interval.name) + ".npy"));
    file.write(npy_header(interval.count));
    file.write(bits.data(), bits.size() * sizeof(bits[0]));
    file.commit();
  }
}

}  // namespace mxo::capture
