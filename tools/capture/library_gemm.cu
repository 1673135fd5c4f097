// Whole products as cuBLASLt computes them, sampled at a few rows and columns.
#include "tools/capture/library_gemm.h"

#include <algorithm>

#include "tools/capture/cuda_call.h"
#include "tools/capture/product_operands.h"

namespace mxo::capture {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // on Hopper as NVIDIA advises

/// Kernels take the width only: nvcc cannot spell the host's side of one whose template argument is
/// an object.
template <typename Bits>
__global__ void fill(Bits* x, Index rows, Index columns, std::uint64_t seed) {
  const std::int64_t n = rows * columns;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += step) {
    if constexpr (sizeof(Bits) == 1) {
      x[i] = product_operand_e4m3(seed, i / columns, i % columns, columns).bits;
    } else {
      x[i] = product_operand_bf16(seed, i / columns, i % columns, columns).bits;
    }
  }
}

template <typename T>
DeviceArray<T> random_matrix(Index rows, Index columns, std::uint64_t seed) {
  DeviceArray<T> x(static_cast<std::size_t>(rows * columns));
  fill<<<2048, 256>>>(reinterpret_cast<typename T::Bits*>(x.data()), rows, columns, seed);
  check(cudaGetLastError(), "fill");
  return x;
}

struct Types {
  cudaDataType_t operand;
  cudaDataType_t result;
};

/// Runs the first algorithm of the heuristics and describes it.
std::string multiply(Types types, const Product& p, bool fast, const void* x, const void* w,
                     void* y, const float* one) {
  static cublasLtHandle_t handle = [] {
    cublasLtHandle_t h = nullptr;
    check(cublasLtCreate(&h), "cublasLtCreate");
    return h;
  }();
  cublasLtMatmulDesc_t desc = nullptr;
  check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "MatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& setting) {
    check(cublasLtMatmulDescSetAttribute(desc, attribute, &setting, sizeof setting),
          "MatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (types.operand == CUDA_R_8F_E4M3) {
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(fast ? 1 : 0));
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, one);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, one);
  }
  // Column-major to the library: its A is w, its B is x, its D is y transposed.
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  const auto layout = [](cublasLtMatrixLayout_t* l, cudaDataType_t type, std::int64_t rows,
                         std::int64_t columns) {
    check(cublasLtMatrixLayoutCreate(l, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows),
          "MatrixLayoutCreate");
  };
  layout(&a, types.operand, p.k, p.n);
  layout(&b, types.operand, p.k, p.m);
  layout(&d, types.result, p.n, p.m);

  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspace, sizeof kWorkspace),
        "MatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1, &found, &count),
        "MatmulAlgoGetHeuristic");
  if (count == 0) throw Error(Fault::unsupported, "cuBLASLt has no algorithm for this product");

  static DeviceArray<std::uint8_t> workspace(kWorkspace);
  const float alpha = 1.0f, beta = 0.0f;
  check(cublasLtMatmul(handle, desc, &alpha, w, a, x, b, &beta, y, d, y, d, &found.algo,
                       workspace.data(), kWorkspace, nullptr),
        "cublasLtMatmul");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::uint32_t setting = 0;
    std::size_t written = 0;
    const bool known =
        cublasLtMatmulAlgoConfigGetAttribute(&found.algo, attribute, &setting, sizeof setting,
                                             &written) == CUBLAS_STATUS_SUCCESS;
    return known ? std::to_string(setting) : std::string("?");
  };
  std::string text = "splitk=" + get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) +
                     " tile=" + get(CUBLASLT_ALGO_CONFIG_TILE_ID) +
                     " stages=" + get(CUBLASLT_ALGO_CONFIG_STAGES_ID) +
                     " reduction=" + get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(a);
  cublasLtMatrixLayoutDestroy(b);
  cublasLtMatrixLayoutDestroy(d);
  cublasLtMatmulDescDestroy(desc);
  return text;
}

template <typename T, typename Y>
void run(Kind kind, Types types, const Product& p, std::uint64_t seed, const std::string& name,
         Dtype result_dtype, TensorFile& file) {
  const auto x = random_matrix<T>(p.m, p.k, seed);
  const auto w = random_matrix<T>(p.n, p.k, seed + 1);
  DeviceArray<Y> y(static_cast<std::size_t>(p.m * p.n));
  static DeviceArray<float> one(std::vector<float>{1.0f});
  file.metadata[name] =
      "seed=" + std::to_string(seed) + " " +
      multiply(types, p, kind == Kind::fp8_fast, x.data(), w.data(), y.data(), one.data());

  const Index rows = std::min<Index>(p.m, kProductSamples);
  const Index columns = std::min<Index>(p.n, kProductSamples);
  Tensor out(result_dtype, {rows, columns});
  const std::vector<Y> all = y.host();
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      const Index at = sampled_row(i, rows, p.m) * p.n + sampled_row(j, columns, p.n);
      out.as<Y>()[i * columns + j] = all[static_cast<std::size_t>(at)];
    }
  }
  file.tensors.insert_or_assign(name + ".y", std::move(out));
}

}  // namespace

void capture_product(Kind kind, const Product& p, std::uint64_t seed, TensorFile& file) {
  const std::string shape =
      std::to_string(p.m) + "x" + std::to_string(p.k) + "x" + std::to_string(p.n);
  switch (kind) {
    case Kind::fp8_fast:
      return run<E4M3, float>(kind, {CUDA_R_8F_E4M3, CUDA_R_32F}, p, seed, "fp8.fast1." + shape,
                              Dtype::f32, file);
    case Kind::fp8_promoted:
      return run<E4M3, float>(kind, {CUDA_R_8F_E4M3, CUDA_R_32F}, p, seed, "fp8.fast0." + shape,
                              Dtype::f32, file);
    case Kind::bf16:
      return run<BF16, std::uint16_t>(kind, {CUDA_R_16BF, CUDA_R_16BF}, p, seed, "bf16." + shape,
                                      Dtype::bf16, file);
  }
}

}  // namespace mxo::capture
