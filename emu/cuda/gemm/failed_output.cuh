// One output that failed the rounding test on slices, by a whole warp: in binary64 with a test of
// its own, else in fixed point.
#pragma once

#include "emu/cuda/gemm/exact_output.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/slices.cuh"

namespace mxo::cuda {

/// Sixteen elements as they lie in memory, and the scale of their block, a number.
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
  step.scale = 1;
  if (p.form == ScaleForm::mx) {
    const int byte = static_cast<const std::uint8_t*>(f.scales.data)[scale_offset(p, f, at, c)];
    step.scale = __hiloint2double((byte - 127 + 1023) << 20, 0);
  } else if (p.form == ScaleForm::blockwise) {
    step.scale = static_cast<const float*>(f.scales.data)[scale_offset(p, f, at, c)];
  }
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

/// v 2^-896, exactly: a normal number or zero, of at most 21 significant bits.
__device__ inline double scaled_down(float v) {
  return __hiloint2double(__float_as_int(v) >> 3 & static_cast<int>(0x8FFFFFFF), 0);
}

__device__ inline bool is_e4m3(Dtype dtype) {
  return dtype == Dtype::e4m3 || dtype == Dtype::e4m3fnuz;
}

/// The factors of a problem as a warp reads them.
struct SlicedSides {
  KVectorMemory codes_a;
  KVectorMemory codes_b;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
};

/// Output j of K-vector (g, i) of a by a whole warp: true if binary64 decided its rounding, and it
/// is written.  Every product is exact, of codes in binary32, else in the fused step.  A lane adds
/// 16 of them a step: exactly where codes are e4m3, whose sum has 40 bits; else none of the
/// roundings is more than half an ulp of the product of what the lane has of both K-vectors, whose
/// norms' products add up to at most that of the whole K-vectors' norms, N.  The steps' sums,
/// scaled, and lanes' sums are added with what each operation lacks kept: `lost`, 2 numbers of at
/// most 2^-53 N for each of n = length / 512 + 6 operations, is itself off by less than (2 n) (2 n)
/// 2^-106 N, and exact where its own additions lack nothing.  `Exactly`: every product of bf16 is
/// added so, n = length / 32 + 22.
template <bool Exactly>
__device__ bool float64_output(const Problem& p, const SlicedSides& sides, Index k_vector_a,
                               const KVectorOfGroup& of, Index j) {
  const Index g = of.group;
  const Index k_vector_b = g * p.b.rows + j;
  const KVectorWindow a = sides.window_a[k_vector_a];
  const KVectorWindow b = sides.window_b[k_vector_b];
  if (a.slices >= kBeyond || b.slices >= kBeyond) return false;
  const KVectorAt at_a = k_vector_at(p, p.a, sides.codes_a, k_vector_a);
  const KVectorAt at_b = k_vector_at(p, p.b, sides.codes_b, k_vector_b);
  double sum = 0;
  double lost = 0;  ///< that `sum` lacks
  bool inexact = false;
  const auto add = [&](double value, double lacking) {
    const TwoSum both = two_sum(sum, value);
    sum = both.sum;
    const TwoSum here = two_sum(both.lost, lacking);
    const TwoSum all = two_sum(lost, here.sum);
    lost = all.sum;
    inexact = inexact || here.lost != 0 || all.lost != 0;
  };
  const bool coded = p.a.codes.dtype != Dtype::bf16 && p.b.codes.dtype != Dtype::bf16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Index c = lane * kStep; c < at_a.length; c += 32 * kStep) {
    const Step of_a = load_step(p, p.a, at_a, c);
    const Step of_b = load_step(p, p.b, at_b, c);
    float x[kStep];
    float y[kStep];
    decode_step(p.a.codes.dtype, of_a, x);
    decode_step(p.b.codes.dtype, of_b, y);
    double step = 0;
    if (coded) {
#pragma unroll
      for (int k = 0; k < kStep; ++k) step += scaled_down(x[k] * y[k]);
      step *= 0x1p896;
    } else if constexpr (Exactly) {
      for (int k = 0; k < kStep; ++k) {
        add(static_cast<double>(x[k]) * static_cast<double>(y[k]), 0);
      }
      continue;
    } else {
#pragma unroll
      for (int k = 0; k < kStep; ++k) {
        step = fma(static_cast<double>(x[k]), static_cast<double>(y[k]), step);
      }
    }
    const double scale = of_a.scale * of_b.scale;
    const double scaled = step * scale;
    add(scaled, fma(step, scale, -scaled));
  }
  const bool exact = is_e4m3(p.a.codes.dtype) && is_e4m3(p.b.codes.dtype);
  const auto steps =
      static_cast<double>(Exactly ? at_a.length / 32 + kStep + 6 : at_a.length / 512 + 6);
  const double of_steps = exact ? 0.0 : static_cast<double>(at_a.length / 32 + kStep) * 0x1p-53;
  for (int apart = 16; apart > 0; apart /= 2) {
    const double of_other = __shfl_xor_sync(~0u, sum, apart);
    add(of_other, __shfl_xor_sync(~0u, lost, apart));
  }
  const bool any = __any_sync(~0u, inexact) != 0;
  const double roundings = (Exactly ? 0 : of_steps) + (any ? steps * steps * 0x1p-102 : 0.0);
  const double norms =
      static_cast<double>(a.norm) * static_cast<double>(b.norm) *
      __longlong_as_double(static_cast<long long>(a.quantum + b.quantum + 1023) << 52);
  double scale = 1;
  if (p.form == ScaleForm::rowwise) {
    scale = static_cast<double>(scale_value(p, p.a, g, of.k_vector, 0)) *
            static_cast<double>(scale_value(p, p.b, g, j, 0));
  }
  const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
  const TwoSum all = two_sum(sum, lost);
  const RoundingTest rounded =
      test_rounding(all.sum, fabs(all.lost) + roundings * norms, scale, 0, mantissa);
  if (!rounded.passed) return false;
  if (lane != 0) return true;
  const Index at = p.out_at(g, of.k_vector, j);
  if (p.out.dtype == Dtype::f32) {
    static_cast<std::uint32_t*>(p.out.data)[at] = rounded.bits;
  } else {
    static_cast<BF16*>(p.out.data)[at] = BF16{static_cast<std::uint16_t>(rounded.bits)};
  }
  return true;
}

/// Computes and writes output (at, j).  The definition takes far longer than binary64.
__device__ inline void failed_output(const Problem& p, const SlicedSides& sides, Index k_vector_a,
                                     const KVectorOfGroup& at, Index j) {
  if (float64_output<false>(p, sides, k_vector_a, at, j)) return;
  if (p.form == ScaleForm::none && float64_output<true>(p, sides, k_vector_a, at, j)) return;
  exact_output(p, at.group, at.k_vector, j);
}

}  // namespace mxo::cuda
