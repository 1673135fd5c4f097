// Products one output at a time: the exact sum in fixed point, and the chain in f32.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_output.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/sums/fold.h"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;

/// A warp to an output.
__global__ void __launch_bounds__(kThreads) fixed_point_kernel(Problem p) {
  const Index outputs = lines_with_outputs(p) * p.b.rows;
  const Index warps = gridDim.x * Index{kThreads / 32};
  for (Index index = blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32; index < outputs;
       index += warps) {
    const KVectorOfGroup at = k_vector_number(p, index / p.b.rows);
    exact_output(p, at.group, at.k_vector, index % p.b.rows);
  }
}

/// acc = fma(code * scale, code * scale, acc) over places first .. end - 1.
__device__ float chain(const KVector& a, const KVector& b, Index first, Index end, bool scaled) {
  float acc = 0.0f;
  for (Index c = first; c < end; ++c) {
    const float x = scaled ? a.code(c) * a.scale(c) : a.code(c);
    const float y = scaled ? b.code(c) * b.scale(c) : b.code(c);
    acc = fmaf(x, y, acc);
  }
  return acc;
}

__device__ float chain_output(const Problem& p, Index g, Index i, Index j) {
  const Index length = p.length_of(g);
  if (length == 0) return 0.0f;
  const KVector a = vector_of(p, p.a, g, i);
  const KVector b = vector_of(p, p.b, g, j);
  const Fold fold = p.sum.fold;
  const bool scaled = fold == Fold::term;
  const Index block = p.sum.block;
  float y = 0.0f;
  if (block == 0) y = chain(a, b, 0, length, scaled);
  for (Index c = 0; block > 0 && c < length; c += block) {
    const float part = chain(a, b, c, min(c + block, length), scaled);
    y = fold_block(fold, part, a.scale(c), b.scale(c), y);
  }
  return is_after(fold) ? scaled_sum(fold, y, a.scale(0), b.scale(0)) : y;
}

__global__ void __launch_bounds__(kThreads) chain_kernel(Problem p) {
  const Index outputs = lines_with_outputs(p) * p.b.rows;
  const Index threads = gridDim.x * Index{kThreads};
  for (Index index = blockIdx.x * Index{kThreads} + threadIdx.x; index < outputs;
       index += threads) {
    const KVectorOfGroup at = k_vector_number(p, index / p.b.rows);
    const float y = chain_output(p, at.group, at.k_vector, index % p.b.rows);
    store_output(p, at.group, at.k_vector, index % p.b.rows,
                 isnan(y) ? bit_cast<float>(0x7FC00000u) : y);
  }
}

unsigned blocks_for(Index units, Index per_block) {
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(units, per_block), 1, Index{1} << 20));
}

}  // namespace

void add_in_fixed_point(DeviceBackend& backend, const Problem& p) {
  const unsigned blocks = blocks_for(p.lines_a() * p.b.rows, kThreads / 32);
  fixed_point_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p);
  check_launch("fixed_point_kernel");
}

void chain_products(DeviceBackend& backend, const Problem& p) {
  const unsigned blocks = blocks_for(p.lines_a() * p.b.rows, kThreads);
  chain_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p);
  check_launch("chain_kernel");
}

}  // namespace mxo::cuda
