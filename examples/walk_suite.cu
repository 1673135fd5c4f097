// A CUDA kernel over a suite of `mxo generate SUITE --op cast --dtype f32 --set out=bf16 --shape
// ...`: walk_suite SUITE OUTPUTS, then `mxo compare SUITE OUTPUTS`.  The operand never leaves the
// device.
#include <cstdio>
#include <filesystem>

#include <cuda_runtime.h>

#include <mxoracle/compare_shapes.h>
#include <mxoracle/inputs.h>
#include <mxoracle/safetensors.h>

namespace {

__global__ void make_input(mxo::inputs::Distribution of, unsigned long long seed, unsigned stream,
                           long count, long columns, float* x) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) x[i] = mxo::inputs::element(of, seed, stream, i, columns);
}

/// The kernel under test.
__global__ void my_kernel(const float* x, long count, mxo::BF16* y) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) y[i] = mxo::from_float<mxo::BF16>(x[i]);
}

mxo::Tensor run(const mxo::ShapedCall& call) {
  const mxo::InputRecipe& x = call.inputs.at(0).recipe;
  mxo::Tensor y(mxo::Dtype::bf16, x.shape);
  const long count = y.elements();
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  float* input = nullptr;
  mxo::BF16* output = nullptr;
  cudaMalloc(&input, count * sizeof(float));
  cudaMalloc(&output, count * sizeof(mxo::BF16));
  make_input<<<blocks, 256>>>(x.distribution, call.options.seed, mxo::inputs::stream_of(x.name),
                              count, x.shape.back(), input);
  my_kernel<<<blocks, 256>>>(input, count, output);
  cudaMemcpy(y.data(), output, y.bytes(), cudaMemcpyDeviceToHost);
  cudaFree(input);
  cudaFree(output);
  return y;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::filesystem::path outputs = argv[2];
  std::filesystem::create_directories(outputs);
  const auto cases = mxo::read_shape_suite(argv[1]).cases;
  const auto path_of = [&](const auto& item) { return outputs / (item.id + ".safetensors"); };
  // Those of an earlier run would be judged if the kernel fails.
  for (const mxo::ShapedCase& item : cases) std::filesystem::remove(path_of(item));
  for (const mxo::ShapedCase& item : cases) {
    mxo::TensorFile file;
    file.tensors.emplace("y", run(item.call));
    const cudaError_t error = cudaGetLastError();
    std::printf("%s: %s\n", item.id.c_str(), cudaGetErrorString(error));
    if (error != cudaSuccess) return 4;
    mxo::write_safetensors(path_of(item), file);
  }
}
