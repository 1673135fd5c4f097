// Products one output at a time: the exact sum in fixed point, and the chain in f32.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/element.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/sums/exact_sum.h"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;

__device__ ExactNumber exact_element(const LineReader& line, Index c) {
  const ExactNumber code = exact_number(line.code(c));
  return line.scales == nullptr ? code : product(code, exact_number(line.scale(c)));
}

/// The sum of another lane.
__device__ ExactSum from_lane(const ExactSum& sum, int apart) {
  constexpr int kWords = sizeof(ExactSum) / sizeof(unsigned);
  union {
    ExactSum sum;
    unsigned words[kWords];
  } mine{sum};
  for (int i = 0; i < kWords; ++i) mine.words[i] = __shfl_xor_sync(~0u, mine.words[i], apart);
  return mine.sum;
}

/// One output by a whole warp.
__device__ void exact_output(const Problem& p, Index g, Index i, Index j) {
  const Index length = p.length_of(g);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const LineReader a(p, p.a, g, i);
  const LineReader b(p, p.b, g, j);
  ExactSum sum;
  for (Index c = lane; c < length; c += 32)
    sum.add_product(exact_element(a, c), exact_element(b, c));
  for (int apart = 16; apart > 0; apart /= 2) sum.add(from_lane(sum, apart));
  if (lane != 0) return;
  const Index at = p.out_at(g, i, j);
  if (p.out_dtype == Dtype::f32) {
    static_cast<float*>(p.out)[at] = length > 0 ? sum.round_to_f32() : 0.0f;
  } else {
    static_cast<BF16*>(p.out)[at] = length > 0 ? sum.round_to_bf16() : BF16{0};
  }
}

/// A warp looks at 32 neighbouring outputs and sums those that are not in integers.
__global__ void __launch_bounds__(kThreads)
    fixed_point_kernel(Problem p, const LineWindow* window_a, const LineWindow* window_b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index across = (p.n + 31) / 32;
  const Index units = owed_lines(p) * across;
  const Index warps = gridDim.x * Index{kThreads / 32};
  for (Index unit = blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32; unit < units;
       unit += warps) {
    const Index index = unit / across;
    const LineOfGroup at = line_number(p, index);
    const Index first = unit % across * 32;
    const Index j = first + lane;
    bool owed = j < p.n;
    if (owed && window_a != nullptr) {
      owed = !in_integers(window_a[index], window_b[at.group * p.n + j]);
    }
    for (unsigned left = __ballot_sync(~0u, owed); left != 0; left &= left - 1) {
      exact_output(p, at.group, at.line, first + __ffs(static_cast<int>(left)) - 1);
    }
  }
}

/// acc = fma(code * scale, code * scale, acc) over places first .. past - 1.
__device__ float chain(const LineReader& a, const LineReader& b, Index first, Index past,
                       bool scaled) {
  float acc = 0.0f;
  for (Index c = first; c < past; ++c) {
    const float x = scaled ? a.code(c) * a.scale(c) : a.code(c);
    const float y = scaled ? b.code(c) * b.scale(c) : b.code(c);
    acc = fmaf(x, y, acc);
  }
  return acc;
}

__device__ float chain_output(const Problem& p, Index g, Index i, Index j) {
  const Index length = p.length_of(g);
  if (length == 0) return 0.0f;
  const LineReader a(p, p.a, g, i);
  const LineReader b(p, p.b, g, j);
  if (p.scaling == Scaling::rowwise) return chain(a, b, 0, length, false) * a.scale(0) * b.scale(0);
  if (p.scaling != Scaling::blockwise) return chain(a, b, 0, length, p.scaling == Scaling::mx);
  float y = 0.0f;
  for (Index c = 0; c < length; c += kScaleTile) {
    const float part = chain(a, b, c, min(c + kScaleTile, length), false);
    y = fmaf(part * a.scale(c), b.scale(c), y);
  }
  return y;
}

__global__ void __launch_bounds__(kThreads) chain_kernel(Problem p) {
  const Index outputs = owed_lines(p) * p.n;
  const Index threads = gridDim.x * Index{kThreads};
  for (Index index = blockIdx.x * Index{kThreads} + threadIdx.x; index < outputs;
       index += threads) {
    const LineOfGroup at = line_number(p, index / p.n);
    const float y = chain_output(p, at.group, at.line, index % p.n);
    store_output(p, at.group, at.line, index % p.n, isnan(y) ? bit_cast<float>(0x7FC00000u) : y);
  }
}

unsigned blocks_for(Index units, Index per_block) {
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(units, per_block), 1, Index{1} << 20));
}

}  // namespace

void add_in_fixed_point(DeviceBackend& backend, const Problem& p, const LineWindow* a,
                        const LineWindow* b) {
  const unsigned blocks = blocks_for(p.lines_a() * ceil_div(p.n, 32), kThreads / 32);
  fixed_point_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, a, b);
  check_launch("fixed_point_kernel");
}

void chain_products(DeviceBackend& backend, const Problem& p) {
  const unsigned blocks = blocks_for(p.lines_a() * p.n, kThreads);
  chain_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p);
  check_launch("chain_kernel");
}

}  // namespace mxo::cuda
