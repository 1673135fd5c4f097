// One output that failed the rounding test on slices, by a whole warp: in binary64 with a test of
// its own, else in fixed point.
#pragma once

#include "emu/cuda/gemm/exact_output.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/slices.cuh"

namespace mxo::cuda {

/// Sixteen elements as they lie in memory, and the scale of their block.
struct Step {
  uint4 words[2];
  double scale;
};
__device__ inline Step load_step(const Problem& p, const Factor& f, const KVectorAt& at, Index c) {
  Step step{};
  const bool wide = f.codes.dtype == Dtype::bf16;
  const auto* from = reinterpret_cast<const uint4*>(at.codes + c * (wide ? 2 : 1));
  step.words[0] = from[0];
  if (wide) step.words[1] = from[1];
  const Parts s = block_scale(p, f, at, c);
  const double magnitude = static_cast<double>(s.significand) *
                           __longlong_as_double(static_cast<long long>(s.exponent + 1023) << 52);
  step.scale = s.negative ? -magnitude : magnitude;
  return step;
}

/// The values of its codes.
__device__ inline void decode_step(Dtype dtype, const Step& step, float (&v)[kStep]) {
  const uint4& w = step.words[0];
  switch (dtype) {
    case Dtype::bf16: {
      const uint4& more = step.words[1];
      const std::uint32_t flat[8] = {w.x, w.y, w.z, w.w, more.x, more.y, more.z, more.w};
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        v[i] = __uint_as_float(i % 2 == 0 ? flat[i / 2] << 16 : flat[i / 2] & 0xFFFF0000u);
      }
      return;
    }
    case Dtype::e4m3: return decode_codes<E4M3>(w, v);
    case Dtype::e4m3fnuz: return decode_codes<E4M3Fnuz>(w, v);
    case Dtype::e5m2: return decode_codes<E5M2>(w, v);
    default: return decode_codes<E5M2Fnuz>(w, v);
  }
}

/// The factors of a problem as a warp reads them.
struct Sides {
  KVectorMemory codes_a;
  KVectorMemory codes_b;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
};

/// Outputs j[0..count) of K-vector (g, i) of a by a whole warp, which brings that K-vector to
/// binary64 once for all of them: a bit for each whose rounding binary64 decided, and which is
/// written.  Every product is exact in the fused step.  A lane rounds 16 sums and one scaled of
/// each step's, `length` / 512 of them rounded up; none is off by more than half an ulp of the
/// product of what the lane has of both K-vectors, whose norms' products add up to at most that of
/// the whole K-vectors' norms.  Then five sums of lanes.
template <int kCount>
__device__ unsigned float64_outputs(const Problem& p, const Sides& sides, Index k_vector_a,
                                    const KVectorOfGroup& of, const Index (&j)[kCount], int count) {
  const Index g = of.group;
  const KVectorWindow a = sides.window_a[k_vector_a];
  if (a.slices >= kBeyond) return 0;
  const KVectorAt at_a = k_vector_at(p, p.a, sides.codes_a, k_vector_a);
  KVectorAt at_b[kCount];
  double sum[kCount] = {};
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    if (n < count) at_b[n] = k_vector_at(p, p.b, sides.codes_b, g * p.b.rows + j[n]);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Index c = lane * kStep; c < at_a.length; c += 32 * kStep) {
    const Step of_a = load_step(p, p.a, at_a, c);
    Step of_b[kCount];
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      if (n < count) of_b[n] = load_step(p, p.b, at_b[n], c);
    }
    float v[kStep];
    decode_step(p.a.codes.dtype, of_a, v);
    double x[kStep];
#pragma unroll
    for (int k = 0; k < kStep; ++k) x[k] = static_cast<double>(v[k]);
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      if (n >= count) continue;
      decode_step(p.b.codes.dtype, of_b[n], v);
      double step = 0;
#pragma unroll
      for (int k = 0; k < kStep; ++k) step = fma(x[k], static_cast<double>(v[k]), step);
      sum[n] = fma(step, of_a.scale * of_b[n].scale, sum[n]);
    }
  }
  const auto steps = static_cast<double>(at_a.length / 32 + at_a.length / 512 + kStep + 9);
  unsigned decided = 0;
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    if (n >= count) continue;
    for (int apart = 16; apart > 0; apart /= 2) sum[n] += __shfl_xor_sync(~0u, sum[n], apart);
    const KVectorWindow b = sides.window_b[g * p.b.rows + j[n]];
    if (b.slices >= kBeyond) continue;
    const double norms =
        static_cast<double>(a.norm) * static_cast<double>(b.norm) *
        __longlong_as_double(static_cast<long long>(a.quantum + b.quantum + 1023) << 52);
    double scale = 1;
    if (p.form == ScaleForm::rowwise) {
      scale = static_cast<double>(scale_value(p, p.a, g, of.k_vector, 0)) *
              static_cast<double>(scale_value(p, p.b, g, j[n], 0));
    }
    const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
    const RoundingTest rounded = test_rounding(sum[n], steps * 0x1p-53 * norms, scale, 0, mantissa);
    if (!rounded.passed) continue;
    decided |= 1u << n;
    if (lane != 0) continue;
    const Index at = p.out_at(g, of.k_vector, j[n]);
    if (p.out.dtype == Dtype::f32) {
      static_cast<std::uint32_t*>(p.out.data)[at] = rounded.bits;
    } else {
      static_cast<BF16*>(p.out.data)[at] = BF16{static_cast<std::uint16_t>(rounded.bits)};
    }
  }
  return decided;
}

/// Computes and writes outputs (at, j[0..count)).
template <int kCount>
__device__ void failed_outputs(const Problem& p, const Sides& sides, Index k_vector_a,
                               const KVectorOfGroup& at, const Index (&j)[kCount], int count) {
  const unsigned decided = float64_outputs(p, sides, k_vector_a, at, j, count);
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    if (n < count && (decided >> n & 1u) == 0) exact_output(p, at.group, at.k_vector, j[n]);
  }
}

}  // namespace mxo::cuda
