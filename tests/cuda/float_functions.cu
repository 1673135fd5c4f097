// Functions of formats/exp.h run by the device, without an operator around them.
#include "tests/cuda/float_functions.h"

#include <stdexcept>

#include "formats/exp.h"

namespace mxo::test {
namespace {

__global__ void apply(FloatFunction function, const float* x, float* y, std::int64_t count) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    y[i] = function == FloatFunction::exp ? exp_rn(x[i]) : sigmoid_rn(x[i]);
  }
}

}  // namespace

void on_device(FloatFunction function, const float* x, float* y, std::int64_t count) {
  apply<<<4096, 256>>>(function, x, y, count);
  const cudaError_t status = cudaDeviceSynchronize();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

}  // namespace mxo::test
