// One output that failed the rounding test on slices, by a whole warp: in binary64 with a test of
// its own, else in fixed point.
#pragma once

#include "emu/cuda/gemm/exact_output.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/slices.cuh"

namespace mxo::cuda {

template <typename Code>
__device__ void decode_step(const KVectorAt& at, Index c, double (&v)[kStep]) {
  std::uint32_t codes[kStep];
  load_codes<Code>(at, c, codes);
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    v[i] = static_cast<double>(decode(Code{static_cast<typename Code::Bits>(codes[i])}));
  }
}

/// Sixteen elements from place c on, with the scales of blocks: exact, 28 bits at most.
__device__ inline void read_step(const Problem& p, const Factor& f, const KVectorAt& at, Index c,
                                 double (&v)[kStep]) {
  switch (f.codes.dtype) {
    case Dtype::bf16: decode_step<BF16>(at, c, v); break;
    case Dtype::e4m3: decode_step<E4M3>(at, c, v); break;
    case Dtype::e4m3fnuz: decode_step<E4M3Fnuz>(at, c, v); break;
    case Dtype::e5m2: decode_step<E5M2>(at, c, v); break;
    default: decode_step<E5M2Fnuz>(at, c, v); break;
  }
  if (p.form != ScaleForm::mx && p.form != ScaleForm::blockwise) return;
  const Parts s = block_scale(p, f, at, c);
  const double magnitude = static_cast<double>(s.significand) *
                           __longlong_as_double(static_cast<long long>(s.exponent + 1023) << 52);
  const double scale = s.negative ? -magnitude : magnitude;
#pragma unroll
  for (int i = 0; i < kStep; ++i) v[i] *= scale;
}

/// The factors of a problem as a warp reads them.
struct Sides {
  KVectorMemory codes_a;
  KVectorMemory codes_b;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
};

/// One output by a whole warp: true if binary64 decided its rounding, and it is written.  Every
/// product is exact in the fused step; of `length` / 32 rounded sums in a lane none is off by more
/// than half an ulp of the product of the K-vectors' norms.
__device__ inline bool float64_output(const Problem& p, const Sides& sides, Index k_vector_a,
                                      Index g, Index i, Index j) {
  const KVectorWindow a = sides.window_a[k_vector_a];
  const KVectorWindow b = sides.window_b[g * p.b.rows + j];
  if (a.slices >= kBeyond || b.slices >= kBeyond) return false;
  const KVectorAt at_a = k_vector_at(p, p.a, sides.codes_a, k_vector_a);
  const KVectorAt at_b = k_vector_at(p, p.b, sides.codes_b, g * p.b.rows + j);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double sum = 0;
  for (Index c = lane * kStep; c < at_a.length; c += 32 * kStep) {
    double x[kStep];
    double y[kStep];
    read_step(p, p.a, at_a, c, x);
    read_step(p, p.b, at_b, c, y);
#pragma unroll
    for (int k = 0; k < kStep; ++k) sum = fma(x[k], y[k], sum);
  }
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  const auto steps = static_cast<double>(at_a.length / 32 + kStep + 8);
  const double norms =
      static_cast<double>(a.norm) * static_cast<double>(b.norm) *
      __longlong_as_double(static_cast<long long>(a.quantum + b.quantum + 1023) << 52);
  double scale = 1;
  if (p.form == ScaleForm::rowwise) {
    scale = static_cast<double>(scale_value(p, p.a, g, i, 0)) *
            static_cast<double>(scale_value(p, p.b, g, j, 0));
  }
  const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
  const RoundingTest rounded = test_rounding(sum, steps * 0x1p-53 * norms, scale, 0, mantissa);
  if (!rounded.passed) return false;
  if (lane != 0) return true;
  const Index at = p.out_at(g, i, j);
  if (p.out.dtype == Dtype::f32) {
    static_cast<std::uint32_t*>(p.out.data)[at] = rounded.bits;
  } else {
    static_cast<BF16*>(p.out.data)[at] = BF16{static_cast<std::uint16_t>(rounded.bits)};
  }
  return true;
}

/// Computes and writes output (at, j).
__device__ inline void failed_output(const Problem& p, const Sides& sides, Index k_vector_a,
                                     const KVectorOfGroup& at, Index j) {
  if (float64_output(p, sides, k_vector_a, at.group, at.k_vector, j)) return;
  exact_output(p, at.group, at.k_vector, j);
}

}  // namespace mxo::cuda
