// Functions of formats/exp.h and formats/erf.h run by the device, without an operator around them.
#include "tests/cuda/float_functions.h"

#include <stdexcept>

#include "formats/erf.h"
#include "formats/exp.h"

namespace mxo::test {
namespace {

__device__ float value_of(FloatFunction function, float x) {
  switch (function) {
    case FloatFunction::exp: return exp_rn(x);
    case FloatFunction::sigma: return sigmoid_rn(x);
    case FloatFunction::erf: return erf_rn(x);
    case FloatFunction::tanh: break;
  }
  return tanh_rn(x);
}

__global__ void apply(FloatFunction function, const float* x, float* y, std::int64_t count) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    y[i] = value_of(function, x[i]);
  }
}

}  // namespace

void on_device(FloatFunction function, const float* x, float* y, std::int64_t count) {
  apply<<<4096, 256>>>(function, x, y, count);
  const cudaError_t status = cudaDeviceSynchronize();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

}  // namespace mxo::test
