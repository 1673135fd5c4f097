// Elements of any type, read where they lie.
#pragma once

#include "emu/cuda/gemm/problem.cuh"

namespace mxo::cuda {

/// The value at `offset`, exactly.
__device__ inline float element_at(const void* data, Dtype dtype, Index offset) {
  switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[offset];
    case Dtype::bf16: return decode(static_cast<const BF16*>(data)[offset]);
    case Dtype::f16: return decode(static_cast<const F16*>(data)[offset]);
    case Dtype::e4m3: return decode(static_cast<const E4M3*>(data)[offset]);
    case Dtype::e4m3fnuz: return decode(static_cast<const E4M3Fnuz*>(data)[offset]);
    case Dtype::e5m2: return decode(static_cast<const E5M2*>(data)[offset]);
    case Dtype::e5m2fnuz: return decode(static_cast<const E5M2Fnuz*>(data)[offset]);
    default: return decode(static_cast<const E8M0*>(data)[offset]);
  }
}

__device__ inline float code_value(const Problem& p, const Factor& f, Index g, Index i, Index c) {
  return element_at(f.codes, f.dtype, p.code_at(f, g, i, c));
}
__device__ inline float scale_value(const Problem& p, const Factor& f, Index g, Index i, Index c) {
  if (f.scales == nullptr) return 1.0f;
  const Index at = p.scale_at(f, g, i, c);
  return p.scaling == Scaling::mx ? decode(static_cast<const E8M0*>(f.scales)[at])
                                  : static_cast<const float*>(f.scales)[at];
}

/// One K-vector, its addresses worked out once.
struct KVectorReader {
  const void* codes;
  const void* scales;
  Dtype dtype;
  Dtype scale_dtype;
  Index at;
  Index step;
  Index scale_at;
  Index scale_step;
  int block_shift;

  __device__ KVectorReader(const Problem& p, const Factor& f, Index g, Index i)
      : codes(f.codes),
        scales(f.scales),
        dtype(f.dtype),
        scale_dtype(p.scaling == Scaling::mx ? Dtype::e8m0 : Dtype::f32),
        at(p.code_at(f, g, i, 0)),
        step(f.k),
        scale_at(f.scales == nullptr ? 0 : p.scale_at(f, g, i, 0)),
        scale_step(f.scale_k),
        block_shift(p.block_shift()) {}
  __device__ float code(Index c) const { return element_at(codes, dtype, at + c * step); }
  __device__ float scale(Index c) const {
    if (scales == nullptr) return 1.0f;
    return element_at(scales, scale_dtype, scale_at + (c >> block_shift) * scale_step);
  }
};

/// K-vectors of a that have outputs, all groups together.
__device__ inline Index lines_with_outputs(const Problem& p) {
  return p.wgrad ? p.groups * p.m : Index{p.span[p.groups].start};
}
/// Group and K-vector of the K-vector with number `index` among them.
struct KVectorOfGroup {
  Index group;
  Index k_vector;
};
__device__ inline KVectorOfGroup k_vector_number(const Problem& p, Index index) {
  if (p.wgrad) return {index / p.m, index % p.m};
  const Index g = group_at(p, index, &GroupSpan::start);
  return {g, index - p.span[g].start};
}

/// Writes one output, rounded to its type.
__device__ inline void store_output(const Problem& p, Index g, Index i, Index j, float v) {
  const Index at = p.out_at(g, i, j);
  if (p.out_dtype == Dtype::f32) {
    static_cast<float*>(p.out)[at] = v;
  } else {
    static_cast<BF16*>(p.out)[at] = from_float<BF16>(v);
  }
}

}  // namespace mxo::cuda
