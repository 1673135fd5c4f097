// The exact product of three slices into f32: the three products of the least weights in one sweep
// along k, what they carry and the other six in a second one, all of it exact; tiles of 128 x 128
// outputs.
#include "emu/cuda/gemm/nine_products.cuh"
#include "emu/cuda/gemm/pair_tiles.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/triple_pipeline.cuh"

namespace mxo::cuda {
namespace {

/// What outputs need of a K-vector.
struct NineFact {
  std::int32_t quantum;
  std::int32_t rests;  ///< kOpen: no output is decided
};
constexpr std::int32_t kOpen = INT_MAX;
struct NineProducts {
  using Fact = NineFact;
  __device__ static Fact fact_of(const PairJob& job, const PairWork& work, bool of_a,
                                 int k_vector) {
    const KVectorWindow& w =
        of_a ? job.window_a[work.a + k_vector] : job.window_b[work.b + k_vector];
    if (w.slices >= kBeyond) return {0, kOpen};
    return {w.quantum, static_cast<std::int32_t>(w.residual)};
  }
};

struct NineJob {
  PairJob pair;
  const std::int32_t* rests;  ///< of add_rest_products()
  std::uint32_t* left;        ///< of the lower sums, a word for two outputs, then a bit for each
                              ///< whose rests are not exact; kLeftWords a block
  FailedOutputs failed;
};
constexpr int kSumWords = kPairWords / 2;
constexpr int kLeftWords = (kSumWords + kPairWords / 32) * 256;

__device__ void fetch_tiles(const PairJob& job, TriplePipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const Index tiles = tiles_of<kPairColumns>(job.p);
  pipeline.keep_pace(job.arrivals);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const PairWork work = pair_work_of(job, index);
    if (threadIdx.x % 32 == 0 && !work.hard) {
      pipeline.fetch_lower(a, b, lower_of_three(), work.chunks, work.place, work.k_vector_a,
                           work.k_vector_b);
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, work.k_vector_b, 0);
    }
    __syncwarp();
  }
}

/// What the lower sums and the residuals carry to w0; the rest goes to `left`.
__device__ void carry(const std::int32_t* rests, int group, PairSums& sums, std::uint32_t* left) {
  std::uint32_t inexact[kPairWords / 32] = {};
  rests += (group * 64 + row_of_word(0)) * kPairColumns + column_of_word(0);
#pragma unroll
  for (int n = 0; n < kPairWords; n += 2) {
    const int2 two =
        __ldg(reinterpret_cast<const int2*>(rests + n / 2 % 2 * 8 * kPairColumns + n / 4 * 8));
    const auto of = [&](int i, int rest) {
      const LowerSum lower = lower_sum(static_cast<std::int32_t>(sums.w1[i]),
                                       static_cast<std::int32_t>(sums.w0[i]), rest);
      sums.w0[i] = static_cast<std::uint32_t>(lower.carried);
      inexact[i / 32] |= (static_cast<std::uint32_t>(rest) & 1u) << i % 32;
      return static_cast<std::uint32_t>(static_cast<std::uint16_t>(lower.left));
    };
    const std::uint32_t first = of(n, two.x);
    __stcg(left + n / 2 * 256, first | of(n + 1, two.y) << 16);
  }
#pragma unroll
  for (int i = 0; i < kPairWords / 32; ++i) __stcg(left + (kSumWords + i) * 256, inexact[i]);
}

/// Rounds and writes this thread's outputs, and marks those that are left.
__device__ void write(const NineJob& job, int group, const PairSums& sums,
                      const std::uint32_t* left, const Plan<NineProducts>& plan) {
  const PairWork& work = plan.work;
  const Problem& p = job.pair.p;
  const int first_row = group * 64 + row_of_word(0);
  const int first_column = column_of_word(0);
  const Place place = place_of_outputs<float>(p, work);
  const NineFact of_rows[2] = {plan.facts[first_row], plan.facts[first_row + 8]};
  constexpr int kFlight = 16;  // outputs whose rests are on their way: registers are few
#pragma unroll
  for (int some = 0; some < kPairWords; some += kFlight) {
    std::uint32_t lefts[kFlight / 2];
    const std::uint32_t inexact = __ldcg(left + (kSumWords + some / 32) * 256) >> some % 32;
#pragma unroll
    for (int i = 0; i < kFlight / 2; ++i) lefts[i] = __ldcg(left + (some / 2 + i) * 256);
#pragma unroll
    for (int i = 0; i < kFlight; i += 2) {
      const int n = some + i;
      const int row = first_row + n / 2 % 2 * 8;
      const int column = first_column + n / 4 * 8;
      const NineFact& of_row = of_rows[n / 2 % 2];
      RoundingTest of[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const NineFact of_column = plan.facts[kTileRows + column + side];
        const std::int64_t sum = whole_sum(static_cast<std::int32_t>(sums.w2[n + side]),
                                           static_cast<std::int32_t>(sums.w1[n + side]),
                                           static_cast<std::int32_t>(sums.w0[n + side]),
                                           static_cast<std::int16_t>(lefts[i / 2] >> 16 * side));
        const bool exact = (inexact >> (i + side) & 1u) == 0;
        of[side] = round_whole(sum, off_of_rests(exact, of_row.rests, of_column.rests),
                               of_row.quantum + of_column.quantum);
        of[side].passed = of[side].passed && of_row.rests != kOpen && of_column.rests != kOpen;
      }
      float* out =
          static_cast<float*>(place.out) + row * p.out_row_step + column * p.out_column_step;
      const uint2 bits{of[0].bits, of[1].bits};
      if (place.in_words && of[0].passed && of[1].passed) {
        store_pair(out, bits);
        continue;
      }
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        if (row >= work.rows || column + side >= work.columns) continue;
        if (of[side].passed) {
          store_one(out + side * p.out_column_step, bits, side);
        } else {
          const Index at = work.tile.column + column + side;
          atomicOr(job.failed.bits + (work.a + row) * job.failed.words + at / 32, 1u << at % 32);
        }
      }
    }
    asm volatile("" ::: "memory");
  }
  wait_for_multipliers();
}

__device__ void multiply_tiles(const NineJob& job, TriplePipeline& pipeline, int group,
                               Plan<NineProducts> (&plans)[kPlans]) {
  const Index tiles = tiles_of<kPairColumns>(job.pair.p);
  std::uint32_t* left = job.left + blockIdx.x * Index{kLeftWords} + threadIdx.x;
  int now = 0;
  make_plan<NineProducts>(job.pair, blockIdx.x, tiles, plans[now]);
  wait_for_multipliers();
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Plan<NineProducts>& plan = plans[now];
    now = (now + 1) % kPlans;
    const auto plan_next = [&] {
      make_plan<NineProducts>(job.pair, index + gridDim.x, tiles, plans[now]);
    };
    if (plan.work.hard) {
      if (threadIdx.x == 0) set_hard(job.pair, plan.work);
      plan_next();
      wait_for_multipliers();
      continue;
    }
    const Tile& t = plan.work.tile;
    const std::int32_t* rests =
        job.rests + Corrections::place(job.pair.p, t.group, t.row, t.column) * Corrections::kTile;
    PairSums sums;
    pipeline.multiply_all(
        sums, plan.work.chunks, group, [&] { carry(rests, group, sums, left); }, plan_next);
    write(job, group, sums, left, plan);
  }
}

__global__ void __launch_bounds__(kPipelineThreads, 1)
    nine_products_kernel(const __grid_constant__ CUtensorMap a,
                         const __grid_constant__ CUtensorMap b,
                         const __grid_constant__ NineJob job) {
  extern __shared__ std::uint8_t tiles[];
  __shared__ Plan<NineProducts> plans[kPlans];
  TriplePipeline pipeline(tiles);
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job.pair, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles(job, pipeline, group, plans);
  }
}

}  // namespace

void multiply_by_nine_products(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                               const KVectorMemory& b, const HardTiles& hard) {
  ThreeSliceScratch scratch_a;
  ThreeSliceScratch scratch_b;
  const ThreeSlices of_a = make_three_slices(backend, p, p.a, a, p.a.rows, nullptr, scratch_a);
  const ThreeSlices of_b = make_three_slices(backend, p, p.b, b, p.b.rows, nullptr, scratch_b);
  std::optional<Scratch<std::int32_t>> rests;
  const auto blocks = static_cast<unsigned>(backend.multiprocessors());
  Scratch<std::uint32_t> left(backend, Index{blocks} * kLeftWords);
  const Index words = ceil_div(p.b.rows, 32);
  Scratch<std::uint32_t> marks(backend, p.lines_a() * words);
  Scratch<std::uint32_t> arrivals(backend, 1);
  const auto zero = [&](const Scratch<std::uint32_t>& of, Index count) {
    backend.fill_zero(reinterpret_cast<std::byte*>(of.data()),
                      static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  };
  zero(marks, p.lines_a() * words);
  zero(arrivals, 1);
  NineJob job{};
  job.pair.p = p;
  job.pair.window_a = of_a.slices.window;
  job.pair.window_b = of_b.slices.window;
  job.pair.hard = hard;
  job.pair.arrivals = arrivals.data();
  job.rests = add_rest_products(backend, p, of_a, of_b, rests);
  job.left = left.data();
  job.failed = {marks.data(), words};
  const auto map = [](const KVectorMemory& m) {
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, 3, m.group_bytes, 128);
  };
  check(cudaFuncSetAttribute(nine_products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kTripleBytes),
        "cudaFuncSetAttribute");
  nine_products_kernel<<<blocks, kPipelineThreads, kTripleBytes, backend.stream()>>>(
      map(of_a.slices.memory), map(of_b.slices.memory), job);
  check_launch("nine_products_kernel");
  compute_failed_outputs(backend, p, of_a.slices, of_b.slices, job.failed, nullptr);
}

}  // namespace mxo::cuda
