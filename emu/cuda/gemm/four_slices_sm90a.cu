// The exact product of four slices into bf16: products of weights 2 and 3, of bf16 elements 1, too,
// in one sweep along k, what they carry and the six of the upper three slices in a second one;
// tiles of 128 x 128 outputs.
#include "emu/cuda/gemm/four_slices.cuh"
#include "emu/cuda/gemm/pair_tiles.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/triple_pipeline.cuh"

namespace mxo::cuda {
namespace {

struct FourSlices {
  using Fact = TripleFact;
  __device__ static Fact fact_of(const PairJob& job, const PairWork& work, bool of_a,
                                 int k_vector) {
    const KVectorWindow& w =
        of_a ? job.window_a[work.a + k_vector] : job.window_b[work.b + k_vector];
    if (w.slices == 0) return {0.0f, 0.0f};
    if (w.slices >= kBeyond) return {1.0f, INFINITY};
    return {__int_as_float((w.quantum + 16 + 127) << 23), w.residual};
  }
};

struct FourJob {
  PairJob pair;
  std::uint32_t* left;    ///< what was not carried of four outputs each; kLeftWords a block
  std::uint32_t* doubts;  ///< how many tiles of 128 x 128 have
  FailedOutputs failed;
  bool looks;            ///< at tiles of kLooked; else at the others
  std::int32_t* looked;  ///< tiles looked at, then those of them found hard
};
/// No bit depends on it: if more than half of the tiles that are looked at first are hard, all are.
/// Rows of a from which tiles are looked at: of each run those that begin in its first half.
constexpr Runs kLooked{2 * kTileRows, 64};
/// The same of b, their columns.
constexpr Runs kLookedColumns{2 * kPairColumns, 4};
constexpr int kLeftWords = kPairWords / 4 * 256;
/// A tile with more doubts is hard: they would take longer than all products of slices.
constexpr std::uint32_t kMostDoubts = 256;

__device__ bool looked_at(const Problem& p, Index index) {
  const Tile t = tile_of<kPairColumns>(p, index);
  const Index a = p.contracts_rows() ? t.group * p.a.rows : p.span[t.group].start;
  const Index b = t.group * p.b.rows + t.column;
  const auto begins = [](Index k_vector, Runs runs) {
    return k_vector / kTileRows % (runs.length / kTileRows * runs.step) == 0;
  };
  return begins(a + t.row, kLooked) && begins(b, kLookedColumns);
}
/// The first tile of this block from `index` on whose turn it is.
__device__ Index next_tile(const FourJob& job, Index index, Index tiles) {
  while (index < tiles && looked_at(job.pair.p, index) != job.looks) index += gridDim.x;
  return index;
}

__device__ void fetch_tiles(const FourJob& job, TriplePipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const Index tiles = tiles_of<kPairColumns>(job.pair.p);
  pipeline.keep_pace(job.pair.arrivals);
  for (Index index = next_tile(job, blockIdx.x, tiles); index < tiles;
       index = next_tile(job, index + gridDim.x, tiles)) {
    const PairWork work = pair_work_of(job.pair, index);
    if (threadIdx.x % 32 == 0 && work.wanted && !work.hard) {
      pipeline.fetch_lower(a, b, lower_of_four(), work.chunks, work.place, work.k_vector_a,
                           work.k_vector_b);
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, work.k_vector_b, 0, 1);
    }
    __syncwarp();
  }
}

/// Leaves in w0 what it carries; the rest goes to `left`.
__device__ void carry(PairSums& sums, std::uint32_t* left) {
#pragma unroll
  for (int n = 0; n < kPairWords; n += 4) {
    std::uint32_t four = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const CarriedSum of = carry_of_four(static_cast<std::int32_t>(sums.w1[n + i]),
                                          static_cast<std::int32_t>(sums.w0[n + i]),
                                          static_cast<std::int32_t>(sums.w2[n + i]));
      sums.w0[n + i] = static_cast<std::uint32_t>(of.carried);
      four |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(of.left)) << 8 * i;
    }
    __stcg(left + n / 4 * 256, four);
  }
}

/// Counts a tile that was looked at; one thread.
__device__ void count_look(const FourJob& job, bool hard) {
  if (!job.looks) return;
  atomicAdd(job.looked, 1);
  if (hard) atomicAdd(job.looked + 1, 1);
}

/// Marks this thread's doubts, a bit each; if all threads have too many, the tile is hard.
__device__ void mark_doubts(const FourJob& job, int group, const std::uint32_t (&doubts)[2],
                            const PairWork& work) {
  const auto own = static_cast<std::uint32_t>(__popc(doubts[0]) + __popc(doubts[1]));
  const Tile& t = work.tile;
  std::uint32_t* count = job.doubts + Corrections::place(job.pair.p, t.group, t.row, t.column);
  if (own > 0) atomicAdd(count, own);
  wait_for_multipliers();
  const bool hard = __ldcg(count) > kMostDoubts;
  if (threadIdx.x == 0) {
    count_look(job, hard);
    if (hard) set_hard(job.pair, work);
  }
  if (hard) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    for (std::uint32_t rest = doubts[half]; rest != 0; rest &= rest - 1) {
      const int i = half * 32 + __ffs(static_cast<int>(rest)) - 1;
      const Index at = t.column + column_of_word(i);
      const Index k_vector = work.a + group * 64 + row_of_word(i);
      atomicOr(job.failed.bits + k_vector * job.failed.words + at / 32, 1u << at % 32);
    }
  }
}

/// Rounds and writes this thread's outputs, and marks those that failed the rounding test.
__device__ void write(const FourJob& job, int group, const PairSums& sums,
                      const std::uint32_t* left, const Plan<FourSlices>& plan) {
  const PairWork& work = plan.work;
  const Problem& p = job.pair.p;
  const int first_row = group * 64 + row_of_word(0);
  const int first_column = column_of_word(0);
  const Place place = place_of_outputs<BF16>(p, work);
  const TripleFact of_rows[2] = {plan.facts[first_row], plan.facts[first_row + 8]};
  std::uint32_t doubts[2] = {};
  const auto part = [](std::uint32_t w) {
    return static_cast<float>(static_cast<std::int32_t>(w));
  };
  std::uint32_t lefts = 0;
#pragma unroll
  for (int n = 0; n < kPairWords; n += 2) {
    if (n % 4 == 0) lefts = __ldcg(left + n / 4 * 256);
    const int row = first_row + n / 2 % 2 * 8;
    const int column = first_column + n / 4 * 8;
    TripleEnds ends[2];
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int i = n + side;
      const auto rest = static_cast<float>(static_cast<std::int8_t>(lefts >> i % 4 * 8));
      ends[side] = ends_of_four(part(sums.w2[i]), part(sums.w1[i]), part(sums.w0[i]), rest,
                                of_rows[n / 2 % 2], plan.facts[kTileRows + column + side]);
    }
    const std::uint32_t bits = nearest_two(ends[0].low, ends[1].low);
    const std::uint32_t differ = bits ^ nearest_two(ends[0].high, ends[1].high);
    const bool passed[2] = {(differ & 0xFFFF) == 0, differ >> 16 == 0};
    BF16* out = static_cast<BF16*>(place.out) + row * p.out_row_step + column * p.out_column_step;
    if (place.in_words && passed[0] && passed[1]) {
      store_pair(out, {bits, 0});
    } else {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        if (row >= work.rows || column + side >= work.columns) continue;
        if (passed[side]) {
          store_one(out + side * p.out_column_step, {bits, 0}, side);
        } else {
          doubts[n / 32] |= 1u << (n + side) % 32;
        }
      }
    }
    if (n % 4 == 2) asm volatile("" ::: "memory");  // two pairs at a time: registers are few
  }
  mark_doubts(job, group, doubts, work);
  wait_for_multipliers();
}

template <bool Weight1>
__device__ void multiply_tiles(const FourJob& job, TriplePipeline& pipeline, int group,
                               Plan<FourSlices> (&plans)[kPlans]) {
  const Index tiles = tiles_of<kPairColumns>(job.pair.p);
  std::uint32_t* left = job.left + blockIdx.x * Index{kLeftWords} + threadIdx.x;
  int now = 0;
  Index index = next_tile(job, blockIdx.x, tiles);
  make_plan<FourSlices>(job.pair, index, tiles, plans[now]);
  wait_for_multipliers();
  while (index < tiles) {
    const Plan<FourSlices>& plan = plans[now];
    now = (now + 1) % kPlans;
    index = next_tile(job, index + gridDim.x, tiles);
    const auto plan_next = [&] { make_plan<FourSlices>(job.pair, index, tiles, plans[now]); };
    if (plan.work.hard || !plan.work.wanted) {
      if (threadIdx.x == 0 && plan.work.wanted) {
        count_look(job, true);
        set_hard(job.pair, plan.work);
      }
      plan_next();
      wait_for_multipliers();
    } else {
      PairSums sums;
      pipeline.multiply_four<Weight1>(
          sums, plan.work.chunks, group, [&] { carry(sums, left); }, plan_next);
      write(job, group, sums, left, plan);
    }
  }
}

__global__ void judge_kernel(const __grid_constant__ FourJob job, std::int32_t* wanted) {
  const bool none = 2 * job.looked[1] > job.looked[0];
  judge(job.pair.p, job.pair.of, job.pair.hard, none, wanted);
}

template <bool Weight1>
__global__ void __launch_bounds__(kPipelineThreads, 1)
    four_slices_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ FourJob job) {
  if (*job.pair.of.any == 0) return;
  extern __shared__ std::uint8_t tiles[];
  __shared__ Plan<FourSlices> plans[kPlans];
  TriplePipeline pipeline(tiles);
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles<Weight1>(job, pipeline, group, plans);
  }
}

}  // namespace

void multiply_by_four_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                             const KVectorMemory& b, const HardTiles& of, const HardTiles& hard) {
  SliceScratch scratch_a;
  SliceScratch scratch_b;
  Slices of_a;
  Slices of_b;
  const auto blocks = static_cast<unsigned>(backend.multiprocessors());
  const Index words = ceil_div(p.b.rows, 32);
  const Index tiles = sides_a(p) * (p.contracts_rows() ? p.groups : 1) * ceil_div(p.b.rows, kSide);
  Scratch<std::uint32_t> left(backend, Index{blocks} * kLeftWords);
  Scratch<std::uint32_t> marks(backend, p.lines_a() * words);
  Scratch<std::uint32_t> doubts(backend, tiles);
  Scratch<std::uint32_t> arrivals(backend, 5);  // of two runs, two numbers of tiles, what is wanted
  const auto zero = [&](const Scratch<std::uint32_t>& to, Index count) {
    backend.fill_zero(reinterpret_cast<std::byte*>(to.data()),
                      static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  };
  zero(marks, p.lines_a() * words);
  zero(doubts, tiles);
  zero(arrivals, 5);
  FourJob job{};
  job.pair.p = p;
  job.pair.hard = hard;
  job.pair.of = of;
  job.left = left.data();
  job.doubts = doubts.data();
  job.failed = {marks.data(), words};
  const auto map = [](const KVectorMemory& m) {
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, 4, m.group_bytes, 128);
  };
  job.looked = reinterpret_cast<std::int32_t*>(arrivals.data() + 2);
  auto* kernel = takes_weight_1(p) ? four_slices_kernel<true> : four_slices_kernel<false>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kTripleBytes),
        "cudaFuncSetAttribute");
  auto* wanted = reinterpret_cast<std::int32_t*>(arrivals.data() + 4);
  for (const bool looks : {true, false}) {
    of_a = make_four_slices(backend, p, p.a, a, p.a.rows, job.pair.of.any, scratch_a,
                            looks ? kLooked : Runs{});
    of_b = make_four_slices(backend, p, p.b, b, p.b.rows, job.pair.of.any, scratch_b,
                            looks ? kLookedColumns : Runs{});
    job.pair.window_a = of_a.window;
    job.pair.window_b = of_b.window;
    job.looks = looks;
    job.pair.arrivals = arrivals.data() + (looks ? 0 : 1);
    kernel<<<blocks, kPipelineThreads, kTripleBytes, backend.stream()>>>(map(of_a.memory),
                                                                         map(of_b.memory), job);
    if (looks) judge_kernel<<<blocks, 128, 0, backend.stream()>>>(job, wanted);
    job.pair.of.any = wanted;
  }
  check_launch("four_slices_kernel");
  compute_failed_outputs(backend, p, of_a, of_b, job.failed, wanted);
}

}  // namespace mxo::cuda
