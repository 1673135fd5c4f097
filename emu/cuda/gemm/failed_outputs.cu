// Outputs that failed the rounding test on slices: in binary64 with a test of its own, else in
// fixed point.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_output.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;

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
__device__ void read_step(const Problem& p, const Factor& f, const KVectorAt& at, Index c,
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
__device__ bool float64_output(const Problem& p, const Sides& sides, Index k_vector_a, Index g,
                               Index i, Index j) {
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

/// A lane looks at a word of marks; all of the warp work on what each has found.  Neighbouring
/// words go to warps far apart: failures come in whole K-vectors.
__global__ void __launch_bounds__(kThreads)
    failed_outputs_kernel(Problem p, Sides sides, FailedOutputs failed) {
  const Index lane = threadIdx.x % 32;
  const Index words = lines_with_outputs(p) * failed.words;
  const Index warps = gridDim.x * Index{kThreads / 32};
  const Index warp = blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32;
  for (Index first = 0; first * warps < words; first += 32) {
    const Index word = (first + lane) * warps + warp;
    const std::uint32_t marks = word < words ? failed.bits[word] : 0;
    for (unsigned found = __ballot_sync(~0u, marks != 0); found != 0; found &= found - 1) {
      const int holder = __ffs(static_cast<int>(found)) - 1;
      const Index k_vector_a = ((first + holder) * warps + warp) / failed.words;
      const Index column = ((first + holder) * warps + warp) % failed.words * 32;
      const KVectorOfGroup at = k_vector_number(p, k_vector_a);
      for (std::uint32_t left = __shfl_sync(~0u, marks, holder); left != 0; left &= left - 1) {
        const Index j = column + __ffs(static_cast<int>(left)) - 1;
        if (!float64_output(p, sides, k_vector_a, at.group, at.k_vector, j)) {
          exact_output(p, at.group, at.k_vector, j);
        }
      }
    }
  }
}

}  // namespace

void compute_failed_outputs(DeviceBackend& backend, const Problem& p, const Slices& a,
                            const Slices& b, const FailedOutputs& failed) {
  // A warp has 32 words and more.
  const Index warps = ceil_div(p.lines_a() * failed.words, 32);
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(warps, kThreads / 32), 1, Index{1} << 14));
  failed_outputs_kernel<<<blocks, kThreads, 0, backend.stream()>>>(
      p, Sides{a.codes, b.codes, a.window, b.window}, failed);
  check_launch("failed_outputs_kernel");
}

}  // namespace mxo::cuda
