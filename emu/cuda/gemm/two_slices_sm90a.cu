// The exact product of two slices: all four products of slices in one sweep along k, their sums in
// registers; tiles of 128 x 128 outputs.
#include "emu/cuda/gemm/pair_tiles.cuh"
#include "emu/exact/two_slices_bounds.h"

namespace mxo::cuda {
namespace {

/// Factors of K-vectors in binary32: no product of two is 0 or infinite.
constexpr float kLeastFactor = 0x1p-60f;
constexpr float kGreatestFactor = 0x1p60f;

__device__ float part(std::uint32_t w) { return static_cast<float>(static_cast<std::int32_t>(w)); }
__device__ double long_part(std::uint32_t w) {
  return static_cast<double>(static_cast<std::int32_t>(w));
}

__device__ IntervalEnds ends_of(std::uint32_t w2, std::uint32_t w1, std::uint32_t w0,
                                __half correction, const FactorAndRest& a, const FactorAndRest& b) {
  return ends_of_slices(part(w2), part(w1), part(w0), __half2float(correction), a, b);
}

/// One sum of each weight along all of k.
template <typename Output>
struct WholeSums {
  using Out = Output;
  using Sums = PairSums;
  using Fact = FactorAndRest;
  static constexpr unsigned kMaxDoubts = kTileRows * kPairColumns / 2;

  __device__ static const auto* corrections(const PairJob& job) {
    if constexpr (std::is_same_v<Out, float>) {
      return job.corrections.by_integers;
    } else {
      return job.corrections.by_high_slices;
    }
  }
  __device__ static Fact fact_of(const PairJob& job, const PairWork& work, bool of_a,
                                 int k_vector) {
    const Problem& p = job.p;
    const Residuals* lists = of_a ? job.residuals_a + work.a : job.residuals_b + work.b;
    const ResidualsHead head = head_of(lists[k_vector]);
    float scale = 1.0f;
    if (p.form == ScaleForm::rowwise && work.chunks > 0) {
      const Factor& f = of_a ? p.a : p.b;
      const Tile& t = work.tile;
      const Index at = p.scale_at(f, t.group, (of_a ? t.row : t.column) + k_vector, 0);
      scale = static_cast<const float*>(f.scales.data)[at];
    }
    const bool small = abs(head.quantum) < 126;
    const float factor = small ? scale * __int_as_float((head.quantum + 127) << 23) : 0.0f;
    if (head.slices == 0 && isfinite(scale)) return {0.0f, 0.0f};
    if (!small || head.slices >= kBeyond ||
        !(factor >= kLeastFactor && factor <= kGreatestFactor)) {
      return {1.0f, INFINITY};
    }
    return {factor, share_of_high_slices(head.sum, work.chunks)};
  }
  template <typename Work>
  __device__ static void multiply(const PairJob&, const PairWork& work, PairPipeline& pipeline,
                                  int group, Sums& sums, Work meanwhile) {
    pipeline.multiply(sums, work.chunks, group, meanwhile);
  }
  __device__ static RoundedPair round(const Sums& sums, int n, const __half (&corrections)[2],
                                      const Fact& a, const Fact (&b)[2]) {
    const IntervalEnds first = ends_of(sums.w2[n], sums.w1[n], sums.w0[n], corrections[0], a, b[0]);
    const IntervalEnds second =
        ends_of(sums.w2[n + 1], sums.w1[n + 1], sums.w0[n + 1], corrections[1], a, b[1]);
    const std::uint32_t low = nearest_two(first.low, second.low);
    const std::uint32_t differ = low ^ nearest_two(first.high, second.high);
    return {{low, 0}, {(differ & 0xFFFF) == 0, differ >> 16 == 0}};
  }
  /// To f32, corrected exactly: many results are ties, as elements have few bits.
  __device__ static RoundedPair round(const Sums& sums, int n, const float (&corrections)[2],
                                      const Fact& a, const Fact (&b)[2]) {
    RoundingTest of[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const double sum = (long_part(sums.w2[n + i]) * 256 + long_part(sums.w1[n + i])) * 256 +
                         long_part(sums.w0[n + i]);
      const TwoSum all = two_sum(sum, static_cast<double>(corrections[i]));
      const double off = a.rest + b[i].rest < INFINITY ? fabs(all.lost) : HUGE_VAL;
      of[i] = test_rounding(
          all.sum, off, static_cast<double>(a.factor) * static_cast<double>(b[i].factor), 0, 23);
    }
    return {{of[0].bits, of[1].bits}, {of[0].passed, of[1].passed}};
  }
  __device__ static double integer(const Sums& sums, int n) {
    return static_cast<double>(
        static_cast<std::int64_t>(static_cast<std::int32_t>(sums.w2[n])) * 65536 +
        static_cast<std::int64_t>(static_cast<std::int32_t>(sums.w1[n])) * 256 +
        static_cast<std::int32_t>(sums.w0[n]));
  }
};

}  // namespace

void multiply_two_slices(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                         const TwoSlices& b, const Corrections& corrections, const Doubts& doubts,
                         const HardTiles& hard) {
  auto* multiply = p.out.dtype == Dtype::f32 ? multiply_pairs<WholeSums<float>>
                                             : multiply_pairs<WholeSums<BF16>>;
  multiply(backend, p, a, b, corrections, doubts, hard);
}

}  // namespace mxo::cuda
