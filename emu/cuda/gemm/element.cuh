// Elements of any type, read where they lie.
#pragma once

#include "emu/cuda/gemm/problem.cuh"

namespace mxo::cuda {

/// The scale of element (g, i, c); 1 where there is none.
__device__ inline float scale_value(const Problem& p, const Factor& f, Index g, Index i, Index c) {
  if (!f.scaled()) return 1.0f;
  return element_at(f.scales.data, f.scales.dtype, p.scale_at(f, g, i, c));
}

/// One K-vector, its addresses worked out once.
__device__ inline KVector vector_of(const Problem& p, const Factor& f, Index g, Index i) {
  return f.vector(p.place(f, g), i);
}

/// K-vectors of a that have outputs, all groups together.
__device__ inline Index lines_with_outputs(const Problem& p) {
  return p.contracts_rows() ? p.groups * p.a.rows : Index{p.span[p.groups].start};
}
/// Group and K-vector of the K-vector with number `index` among them.
struct KVectorOfGroup {
  Index group;
  Index k_vector;
};
__device__ inline KVectorOfGroup k_vector_number(const Problem& p, Index index) {
  if (p.contracts_rows()) return {index / p.a.rows, index % p.a.rows};
  const Index g = group_at(p, index, &GroupSpan::start);
  return {g, index - p.span[g].start};
}

/// Writes one output, rounded to its type.
__device__ inline void store_output(const Problem& p, Index g, Index i, Index j, float v) {
  const Index at = p.out_at(g, i, j);
  if (p.out.dtype == Dtype::f32) {
    static_cast<float*>(p.out.data)[at] = v;
  } else {
    static_cast<BF16*>(p.out.data)[at] = from_float<BF16>(v);
  }
}

}  // namespace mxo::cuda
