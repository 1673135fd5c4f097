// The exact product of two slices whose runs of 128 have scales: each run's product is an integer,
// which is added up times its scales; tiles of 128 x 128 outputs.
#include "emu/cuda/gemm/pair_tiles.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/exact/high_words_bounds.h"
#include "emu/exact/two_slices_bounds.h"

namespace mxo::cuda {
namespace {

/// Scales of a tile's runs as a thread needs them: of its two rows, and from its first column on.
/// Those of the next run are on their way while one is multiplied.
struct ThreadScales {
  struct Run {
    float low;  ///< of the first row
    float high;
    float column;
  };
  const float* a;  ///< of the run that is fetched next
  Index line_a;
  const float* b;
  Index line_b;
  const float* of_columns;  ///< of the run at hand
  int left;                 ///< runs to fetch
  Run coming{};
  Run run{};  ///< at hand

  __device__ void fetch() {
    if (left == 0) return;
    --left;
    coming = {a[0], a[8], b[0]};
    a += line_a;
    b += line_b;
  }
  __device__ void next() {
    run = coming;
    of_columns += line_b;
    fetch();
  }
};
__device__ ThreadScales thread_scales(const PairJob& job, const PairWork& work, int group) {
  const Tile& t = work.tile;
  const Index number_a = side_a(job.p, t.group, t.row).number;
  const Index number_b = side_b(job.p, t.group, t.column).number;
  const Index run = work.place / 128;
  const RunScales& a = job.scales_a;
  const RunScales& b = job.scales_b;
  const float* of_b = b.data + run * b.line + number_b * kSide + column_of_word(0);
  ThreadScales scales{a.data + run * a.line + number_a * kSide + group * 64 + row_of_word(0),
                      a.line,
                      of_b,
                      b.line,
                      of_b - b.line,
                      work.chunks};
  scales.fetch();
  return scales;
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
      const double rows[2] = {static_cast<double>(run.low) * weight,
                              static_cast<double>(run.high) * weight};
      const double uniform = static_cast<double>(run.column);
      const double scale[2] = {rows[0] * uniform, rows[1] * uniform};
#pragma unroll
      for (int n = 0; n < kPairWords; n += 4) {
        double of[2] = {};
        if constexpr (!Uniform) {
          const float2 columns = *reinterpret_cast<const float2*>(of_columns + n / 4 * 8);
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

/// Sums in integers of 32 bits: a run's product over 2^shift, rounded down, times S, its scales in
/// units of w, the high word of it.  The greatest scales of a row and of the tile's columns are
/// less than 2^31 w, and no run's product reaches 2^(31 + shift), so that a run adds 2^30 at most.
/// Sums that leave [-2^30, 2^30) are halved, all of a warp, and w is doubled.
struct HighWords {
  static constexpr std::uint32_t kZero = 1u << 30;  ///< what a sum of 0 is kept as
  struct Sums {
    std::uint32_t of[kPairWords];  ///< less what was added
    float unit[2];                 ///< 2^(32 + shift) w of each row
    float middle[2];               ///< that sums lie above what is kept, give or take as much
    float off[2];                  ///< and what S is off by
  };
  struct Take : ThreadScales {
    Sums& sums;
    int shift;
    float factor[2];  ///< 1 / w
    float rest[2];    ///< that it lacks
    std::int32_t scale[2] = {};

    /// Without binary64, which waits for the tensor cores.
    __device__ void prepare() {
      const float rows[2] = {run.low, run.high};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const ScaleInUnits parts = scale_in_units(rows[i], run.column, factor[i], rest[i]);
        const std::int32_t integer = __float2int_rn(parts.first);
        scale[i] = integer + __float2int_rn(parts.left(integer));
        sums.middle[i] = middle_with_run(sums.middle[i], scale[i]);
      }
    }
    __device__ void operator()(const std::uint32_t (&upper)[kPairWords],
                               const std::uint32_t (&lower)[kPairWords]) {
      const std::uint32_t weight = 256u >> shift;
      std::uint32_t all = 0;
#pragma unroll
      for (int n = 0; n < kPairWords; ++n) {
        const auto product = static_cast<std::int32_t>(
            upper[n] * weight +
            static_cast<std::uint32_t>(static_cast<std::int32_t>(lower[n]) >> shift));
        std::int32_t high;
        asm volatile("mul.hi.s32 %0, %1, %2;" : "=r"(high) : "r"(product), "r"(scale[n / 2 % 2]));
        sums.of[n] -= static_cast<std::uint32_t>(high);
        all |= sums.of[n];
      }
      if (__any_sync(~0u, all >> 31 != 0) != 0) halve();
    }
    __device__ void halve() {
#pragma unroll
      for (std::uint32_t& sum : sums.of) {
        const auto raised = static_cast<std::int32_t>(sum - kZero + 1);
        sum = static_cast<std::uint32_t>(raised >> 1) + kZero;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        factor[i] *= 0.5f;
        rest[i] *= 0.5f;
        sums.unit[i] *= 2.0f;
        sums.middle[i] = middle_of_halves(sums.middle[i]);
      }
    }
  };
  /// A K-vector's greatest scale, raised, and at least the norm of its integers in any run.
  struct Reach {
    float scale = kLeastScale;
    float run = 0;

    __device__ void join(const KVectorWindow& window) {
      if (window.slices == 0 || window.slices >= kBeyond) return;
      scale = fmaxf(scale, window.residual * 1.0001f);
      run = fmaxf(run, window.residual_sum);
    }
  };
  __device__ static float greatest_of_warp(float v) {
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(v)));
  }
  template <typename Work>
  __device__ static void multiply(const PairJob& job, const PairWork& work, PairPipeline& pipeline,
                                  int group, Sums& sums, Work meanwhile) {
    Reach columns;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < work.columns; i += 32) {
      columns.join(job.window_b[work.b + i]);
    }
    columns = {greatest_of_warp(columns.scale), greatest_of_warp(columns.run)};
    Reach rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = group * 64 + row_of_word(0) + half * 8;
      if (row < work.rows) rows[half].join(job.window_a[work.a + row]);
    }
    const float run = columns.run * greatest_of_warp(fmaxf(rows[0].run, rows[1].run));
    const int shift = shift_of_runs(run);
    const float power = power_of_shift(shift);
    Take take{thread_scales(job, work, group), sums, shift, {}, {}};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const UnitOfRuns unit = unit_of_runs(rows[half].scale, columns.scale, power);
      sums.unit[half] = unit.sum;
      take.factor[half] = unit.factor;
      take.rest[half] = unit.rest;
      sums.middle[half] = 0;
    }
#pragma unroll
    for (std::uint32_t& sum : sums.of) sum = kZero;
    meanwhile();
    pipeline.multiply_each(work.chunks, group, take);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums.off[half] = off_of_runs(sums.middle[half], work.chunks, run, power);
    }
  }
  struct Ends {
    float low;
    float high;
  };
  __device__ static Ends ends(const Sums& sums, int n, float correction, float rest,
                              const NormAndRest& a, const NormAndRest& b) {
    const int row = n / 2 % 2;
    const float unit = sums.unit[row];
    const bool zeros = a.norm == 0.0f || b.norm == 0.0f;
    const auto kept = static_cast<std::int32_t>(kZero - sums.of[n]);
    const HighWordsEnds ends = ends_of_high_words(sums.middle[row] + static_cast<float>(kept), unit,
                                                  sums.off[row], correction, rest, zeros);
    const float quantum = __int_as_float((a.quantum + b.quantum + 127) << 23);
    return {ends.low * quantum, ends.high * quantum};
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
