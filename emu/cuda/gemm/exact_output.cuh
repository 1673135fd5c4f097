// One output of the exact product in fixed point, by a whole warp.
#pragma once

#include "emu/cuda/gemm/element.cuh"
#include "emu/exact/exact_sum.h"

namespace mxo::cuda {

__device__ inline ExactNumber exact_element(const KVector& k_vector, Index c) {
  const ExactNumber code = exact_number(k_vector.code(c));
  return k_vector.scales == nullptr ? code : product(code, exact_number(k_vector.scale(c)));
}

/// The sum of another lane.
__device__ inline ExactSum from_lane(const ExactSum& sum, int apart) {
  constexpr int kWords = sizeof(ExactSum) / sizeof(unsigned);
  union {
    ExactSum sum;
    unsigned words[kWords];
  } mine{sum};
  for (int i = 0; i < kWords; ++i) mine.words[i] = __shfl_xor_sync(~0u, mine.words[i], apart);
  return mine.sum;
}

/// Computes and writes it.
__device__ inline void exact_output(const Problem& p, Index g, Index i, Index j) {
  const Index length = p.length_of(g);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const KVector a = vector_of(p, p.a, g, i);
  const KVector b = vector_of(p, p.b, g, j);
  ExactSum sum;
  for (Index c = lane; c < length; c += 32) {
    sum.add_product(exact_element(a, c), exact_element(b, c));
  }
  for (int apart = 16; apart > 0; apart /= 2) sum.add(from_lane(sum, apart));
  if (lane != 0) return;
  const Index at = p.out_at(g, i, j);
  if (p.out.dtype == Dtype::f32) {
    static_cast<float*>(p.out.data)[at] = length > 0 ? sum.round_to_f32() : 0.0f;
  } else {
    static_cast<BF16*>(p.out.data)[at] = length > 0 ? sum.round_to_bf16() : BF16{0};
  }
}

}  // namespace mxo::cuda
