// The router's matrix gradients of few experts: few rows of long sums, and many of short ones.
#pragma once

#include "emu/cuda/canonical.cuh"
#include "emu/cuda/gemm/async_copy.cuh"
#include "emu/cuda/launch.cuh"

namespace mxo::cuda {

/// Experts that the kernels below take at once.
inline constexpr int kFewExperts = 8;

/// Terms that a block of few_rows_kernel adds to its sums at a time; copies of those that follow
/// are under way.
template <typename B>
struct LongSums {
  static constexpr int kThreads = 256;
  static constexpr int kColumns = 64;
  static constexpr int kOwn = 2;  ///< experts of a thread
  static constexpr int kTerms = 64;
  static constexpr int kStages = sizeof(B) == 2 ? 4 : 2;
  static_assert(kThreads * kOwn == kFewExperts * kColumns);
  struct Stage {
    alignas(16) float left[kTerms][kFewExperts];
    alignas(16) B right[kTerms][kColumns];
  };
};

/// c(i, j) = sum over k ascending of fl(a(k, i) * b(k, j)), from +0, never fused; rows of a and b
/// are aligned to 16 bytes and multiples of them long.
template <typename B>
__global__ void __launch_bounds__(LongSums<B>::kThreads)
    few_rows_kernel(Matrix<const float> a, Matrix<const B> b, Matrix<float> c) {
  using Of = LongSums<B>;
  using Stage = typename Of::Stage;
  // Bytes: elements have initial values, shared memory has not.
  __shared__ alignas(16) std::uint8_t memory[Of::kStages * sizeof(Stage)];
  auto* stages = reinterpret_cast<Stage*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const Index i0 = Index{blockIdx.y} * kFewExperts;
  const Index j0 = Index{blockIdx.x} * Of::kColumns;
  const Index terms = a.extent[0];
  const auto fetch = [&](Index number) {
    Stage& to = stages[number % Of::kStages];
    const auto bring = [&]<typename T, int kWidth>(T(&lines)[Of::kTerms][kWidth],
                                                   const Matrix<const T>& from, Index first) {
      constexpr int kPiece = 16 / sizeof(T);
      constexpr int kPieces = kWidth / kPiece;
#pragma unroll
      for (int i = 0; i < ceil_div(Of::kTerms * kPieces, Of::kThreads); ++i) {
        const int n = thread + i * Of::kThreads;
        if (n >= Of::kTerms * kPieces) return;
        const int line = n / kPieces;
        const int at = n % kPieces * kPiece;
        const Index k = number * Of::kTerms + line;
        const bool there = k < terms && first + at < from.extent[1];
        copy_16(&lines[line][at], there ? &from(k, first + at) : from.data, there);
      }
    };
    bring(to.left, a, i0);
    bring(to.right, b, j0);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int s = 0; s < Of::kStages - 1; ++s) fetch(s);
  const int own = thread / Of::kColumns * Of::kOwn;
  const int column = thread % Of::kColumns;
  float sum[Of::kOwn] = {};
  for (Index number = 0; number * Of::kTerms < terms; ++number) {
    fetch(number + Of::kStages - 1);
    asm volatile("cp.async.wait_group %0;" ::"n"(Of::kStages - 1) : "memory");
    __syncthreads();
    const Stage& stage = stages[number % Of::kStages];
#pragma unroll 16
    for (int k = 0; k < Of::kTerms; ++k) {  // past the end there are zeros
      const float2 left = *reinterpret_cast<const float2*>(&stage.left[k][own]);
      const float right = as_float(stage.right[k][column]);
      sum[0] += left.x * right;
      sum[1] += left.y * right;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < Of::kOwn; ++i) {
    const Index row = i0 + own + i;
    if (row < c.extent[0] && j0 + column < c.extent[1]) {
      c(row, j0 + column) = canonical<float>(sum[i]);
    }
  }
}

/// Rows of a block of few_terms_kernel.
inline constexpr int kRowsOfFewTerms = 64;

/// c(i, j) = sum over k ascending of fl(a(i, k) * b(k, j)), from +0, never fused, of at most
/// kFewExperts terms; rows of c are aligned to 16 bytes and multiples of them long.
template <typename B>
__global__ void __launch_bounds__(kThreads)
    few_terms_kernel(Matrix<const float> a, Matrix<const B> b, Matrix<float> c) {
  __shared__ alignas(16) float left[kRowsOfFewTerms][kFewExperts];
  const auto terms = static_cast<int>(a.extent[1]);
  const Index first = Index{blockIdx.x} * kRowsOfFewTerms;
  const Index rows = min(Index{kRowsOfFewTerms}, c.extent[0] - first);
  for (int n = static_cast<int>(threadIdx.x); n < kRowsOfFewTerms * kFewExperts; n += kThreads) {
    const int i = n / kFewExperts;
    const int k = n % kFewExperts;
    left[i][k] = i < rows && k < terms ? a(first + i, k) : 0.0f;
  }
  __syncthreads();
  const Index j = (Index{blockIdx.y} * kThreads + threadIdx.x) * 4;
  if (j >= c.extent[1]) return;
  float right[kFewExperts][4] = {};
#pragma unroll
  for (int k = 0; k < kFewExperts; ++k) {
    for (int n = 0; n < 4 && k < terms; ++n) right[k][n] = as_float(b(k, j + n));
  }
  float* out = &c(first, j);
#pragma unroll 2
  for (int i = 0; i < rows; ++i, out += c.stride[0]) {
    float sum[4] = {};
#pragma unroll
    for (int k = 0; k < kFewExperts; ++k) {  // past the last there are zeros
#pragma unroll
      for (int n = 0; n < 4; ++n) sum[n] += left[i][k] * right[k][n];
    }
    *reinterpret_cast<float4*>(out) = {canonical<float>(sum[0]), canonical<float>(sum[1]),
                                       canonical<float>(sum[2]), canonical<float>(sum[3])};
  }
}

}  // namespace mxo::cuda
