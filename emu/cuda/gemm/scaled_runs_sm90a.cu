// The exact product of two slices whose runs of 128 have scales: each run's product is an integer,
// which is added up times its scales; tiles of 128 x 128 outputs.
#include "emu/cuda/gemm/pair_tiles.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/exact/two_slices_bounds.h"

namespace mxo::cuda {
namespace {

/// Scales of a tile's runs as a thread needs them: of its two rows, and from its first column on.
struct ThreadScales {
  const float* a;
  Index line_a;
  const float* b;
  Index line_b;
  float low;  ///< of this run and the first row
  float high;
  float column;

  __device__ void next() {
    low = a[0];
    high = a[8];
    column = b[0];
    a += line_a;
    b += line_b;
  }
};
__device__ ThreadScales thread_scales(const PairJob& job, const PairWork& work, int group) {
  const Tile& t = work.tile;
  const Index number_a = side_a(job.p, t.group, t.row).number;
  const Index number_b = side_b(job.p, t.group, t.column).number;
  const Index run = work.place / 128;
  const RunScales& a = job.scales_a;
  const RunScales& b = job.scales_b;
  return {a.data + run * a.line + number_a * kSide + group * 64 + row_of_word(0),
          a.line,
          b.data + run * b.line + number_b * kSide + column_of_word(0),
          b.line,
          0,
          0,
          0};
}

/// What the outputs need of a K-vector.
struct NormAndRest {
  float norm;  ///< of scaled integers, in quanta; of a times the roundings of a sum, too
  float left;  ///< at least the sum of its residuals' magnitudes; infinite: no output is decided
  float peak;  ///< at least every scaled integer's magnitude
  std::int16_t quantum;
  std::int16_t count;  ///< residuals
};

/// Sums in binary64, of runs' products times their scales, whose product is exact.  `Uniform`: the
/// tile's K-vectors of b have one scale a run.
template <bool Uniform>
struct Binary64 {
  struct Sums {
    double of[kPairWords];
  };
  struct Take : ThreadScales {
    double (&sum)[kPairWords];
    __device__ Take(const ThreadScales& scales, Sums& sums) : ThreadScales(scales), sum(sums.of) {}
    __device__ void upper(const std::uint32_t (&part)[kPairWords]) { add(part, 256.0); }
    __device__ void lower(const std::uint32_t (&part)[kPairWords]) { add(part, 1.0); }
    __device__ void add(const std::uint32_t (&part)[kPairWords], double weight) {
      const double rows[2] = {static_cast<double>(low) * weight,
                              static_cast<double>(high) * weight};
      const double uniform = static_cast<double>(column);
      const double scale[2] = {rows[0] * uniform, rows[1] * uniform};
#pragma unroll
      for (int n = 0; n < kPairWords; n += 4) {
        double of[2] = {};
        if constexpr (!Uniform) {
          const float2 columns = *reinterpret_cast<const float2*>(b - line_b + n / 4 * 8);
          of[0] = static_cast<double>(columns.x);
          of[1] = static_cast<double>(columns.y);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          // The integer as the low word of a binary64.
          const double integer =
              __hiloint2double(0x43300000, static_cast<int>(part[n + i] ^ 0x80000000u)) -
              (0x1p52 + 0x1p31);
          sum[n + i] = fma(integer, Uniform ? scale[i / 2] : rows[i / 2] * of[i % 2], sum[n + i]);
        }
      }
    }
  };
  template <typename Work>
  __device__ static void multiply(const PairJob& job, const PairWork& work, PairPipeline& pipeline,
                                  int group, Sums& sums, Work meanwhile) {
#pragma unroll
    for (double& sum : sums.of) sum = 0;
    Take take(thread_scales(job, work, group), sums);
    meanwhile();
    pipeline.multiply_apart(work.chunks, group, take);
  }
  struct Ends {
    double low;
    double high;
  };
  __device__ static Ends ends(const Sums& sums, int n, float correction, float rest,
                              const NormAndRest& a, const NormAndRest& b) {
    const double sum = sums.of[n] + static_cast<double>(correction);
    const double off = static_cast<double>(fminf(fmaf(a.norm, b.norm, rest) * 1.0001f, INFINITY));
    const double quantum = __hiloint2double((a.quantum + b.quantum + 1023) << 20, 0);
    return {(sum - off) * quantum, (sum + off) * quantum};
  }
};

/// Sums in integers of 32 bits: a run's product over 64, rounded down, times its scales S in units
/// of w, the high word of it.  w is that of a row times that of the tile's columns; no scale is
/// above 2^15.42 units and no norm above 2^34.46 units of its own side, so that S is below 2^30.84
/// and that the magnitudes of a sum add up to less than 2^62.92 before the low words are dropped.
struct HighWords {
  struct Sums {
    std::int32_t of[kPairWords];  ///< less what was added
    float unit[2];                ///< 2^38 w of each row and of the columns
    float middle[2];  ///< that a row's sums lie above what was added, give or take as much
    float norm[2];    ///< of each row's integers, times the greatest of the columns'
  };
  struct Take : ThreadScales {
    Sums& sums;
    double factor[2];
    int scale[2];
    __device__ Take(const ThreadScales& scales, Sums& all)
        : ThreadScales(scales),
          sums(all),
          factor{0x1p38 / static_cast<double>(all.unit[0]),
                 0x1p38 / static_cast<double>(all.unit[1])} {}
    __device__ void prepare() {
      const float rows[2] = {low, high};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const double product = static_cast<double>(rows[i]) * static_cast<double>(column);
        scale[i] = __double2int_rn(product * factor[i]);
        sums.middle[i] += fmaf(static_cast<float>(scale[i]), 0x1p-33f, 0.5f);
      }
    }
    __device__ void operator()(const std::uint32_t (&upper)[kPairWords],
                               const std::uint32_t (&lower)[kPairWords]) {
#pragma unroll
      for (int n = 0; n < kPairWords; ++n) {
        const std::int32_t product =
            static_cast<std::int32_t>(upper[n] * 4) + (static_cast<std::int32_t>(lower[n]) >> 6);
        std::int32_t high;
        asm volatile("mul.hi.s32 %0, %1, %2;" : "=r"(high) : "r"(product), "r"(scale[n / 2 % 2]));
        sums.of[n] -= high;
      }
    }
  };
  /// The least w of a K-vector.
  __device__ static float unit_of(const KVectorWindow& window) {
    if (window.slices == 0 || window.slices >= kBeyond) return 0x1p-60f;
    return fmaxf(fmaxf(window.norm * 0x1.75p-35f, window.residual * 0x1.8p-16f), 0x1p-60f);
  }
  template <typename Work>
  __device__ static void multiply(const PairJob& job, const PairWork& work, PairPipeline& pipeline,
                                  int group, Sums& sums, Work meanwhile) {
    float columns = 0;
    float norm = 0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < work.columns; i += 32) {
      const KVectorWindow window = job.window_b[work.b + i];
      columns = fmaxf(columns, unit_of(window));
      norm = fmaxf(norm, window.residual_sum);
    }
    columns = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(columns)));
    norm = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(norm)));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = group * 64 + row_of_word(0) + half * 8;
      KVectorWindow window{};
      if (row < work.rows) window = job.window_a[work.a + row];
      sums.unit[half] = 0x1p38f * columns * unit_of(window);
      sums.middle[half] = 0;
      sums.norm[half] = norm * window.residual_sum;
    }
#pragma unroll
    for (std::int32_t& sum : sums.of) sum = 0;
    Take take(thread_scales(job, work, group), sums);
    meanwhile();
    pipeline.multiply_each(work.chunks, group, take);
  }
  struct Ends {
    float low;
    float high;
  };
  /// A run lies up to 1 and S 2^-32 above what was added, so half of that is added and half of it
  /// is how far it is off.  S is off by 1/2 and what its double lost, of products over 64, whose
  /// magnitudes add up to less than the integers' norms'.  In binary32: roundings of the sum, the
  /// correction and the bound.
  __device__ static Ends ends(const Sums& sums, int n, float correction, float rest,
                              const NormAndRest& a, const NormAndRest& b) {
    const int row = n / 2 % 2;
    const float unit = sums.unit[row];
    const bool zeros = a.norm == 0.0f || b.norm == 0.0f;
    const float all = zeros ? 0.0f : sums.middle[row] - static_cast<float>(sums.of[n]);
    const float sum = fmaf(all, unit, correction);
    const float magnitude = fmaf(fabsf(all), unit, fabsf(correction));
    const float least = fmaf(sums.norm[row], 0x1.01p-39f, sums.middle[row] + 0.5f);
    const float of_sum = fmaf(least, unit, magnitude * 0x1p-21f);
    const float off = fminf(rest + (zeros ? 0.0f : of_sum), INFINITY);
    const float quantum = __int_as_float((a.quantum + b.quantum + 127) << 23);
    return {(sum - off) * quantum, (sum + off) * quantum};
  }
};

template <typename Output, typename Adder>
struct RunSums {
  using Out = Output;
  using Sums = typename Adder::Sums;
  using Fact = NormAndRest;
  /// What is in doubt takes a warp each.
  static constexpr unsigned kMaxDoubts = kTileRows * kPairColumns / 64;

  __device__ static const float* corrections(const PairJob& job) {
    return job.corrections.by_integers;
  }
  __device__ static Fact fact_of(const PairJob& job, const PairWork& work, bool of_a,
                                 int k_vector) {
    const KVectorWindow& window = (of_a ? job.window_a + work.a : job.window_b + work.b)[k_vector];
    const ResidualsHead head =
        head_of((of_a ? job.residuals_a + work.a : job.residuals_b + work.b)[k_vector]);
    if (head.slices == 0) return {};
    const float roundings = of_a ? roundings_of_runs(work.chunks) : 1.0f;
    return {window.norm * roundings, head.slices < kBeyond ? head.sum : INFINITY, window.peak,
            static_cast<std::int16_t>(head.quantum), static_cast<std::int16_t>(head.count)};
  }
  template <typename Work>
  __device__ static void multiply(const PairJob& job, const PairWork& work, PairPipeline& pipeline,
                                  int group, Sums& sums, Work meanwhile) {
    Adder::multiply(job, work, pipeline, group, sums, meanwhile);
  }
  __device__ static float rest_of(const Fact& a, const Fact& b) {
    return off_of_corrections({a.count, a.left, a.peak}, {b.count, b.left, b.peak},
                              std::is_same_v<Out, float>);
  }
  __device__ static RoundedPair round(const Sums& sums, int n, const float (&corrections)[2],
                                      const Fact& a, const Fact (&b)[2]) {
    const auto first = Adder::ends(sums, n, corrections[0], rest_of(a, b[0]), a, b[0]);
    const auto second = Adder::ends(sums, n + 1, corrections[1], rest_of(a, b[1]), a, b[1]);
    if constexpr (std::is_same_v<Out, float>) {
      const float low[2] = {__double2float_rn(first.low), __double2float_rn(second.low)};
      return {{__float_as_uint(low[0]), __float_as_uint(low[1])},
              {low[0] == __double2float_rn(first.high), low[1] == __double2float_rn(second.high)}};
    } else {
      const float low[2] = {down(first.low), down(second.low)};
      const std::uint32_t both = nearest_two(low[0], low[1]);
      const std::uint32_t differ = both ^ nearest_two(up(first.high), up(second.high));
      return {{both, 0},
              {(differ & 0xFFFF) == 0 && low[0] == low[0], differ >> 16 == 0 && low[1] == low[1]}};
    }
  }
  __device__ static float down(float v) { return v; }
  __device__ static float down(double v) { return __double2float_rd(v); }
  __device__ static float up(float v) { return v; }
  __device__ static float up(double v) { return __double2float_ru(v); }
  __device__ static double integer(const Sums&, int) { return 0; }
};

}  // namespace

void multiply_scaled_runs(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                          const TwoSlices& b, const Corrections& corrections, const Doubts& doubts,
                          const HardTiles& hard) {
  const bool uniform = p.b.row_tile % kPairColumns == 0 && p.b.first_row == 0;
  const bool wide = p.out.dtype == Dtype::f32;
  const auto multiply = [&](auto* all) { all(backend, p, a, b, corrections, doubts, hard); };
  if (uniform) {
    multiply(wide ? multiply_pairs<RunSums<float, Binary64<true>>>
                  : multiply_pairs<RunSums<BF16, HighWords>>);
  } else {
    multiply(wide ? multiply_pairs<RunSums<float, Binary64<false>>>
                  : multiply_pairs<RunSums<BF16, Binary64<false>>>);
  }
}

}  // namespace mxo::cuda
