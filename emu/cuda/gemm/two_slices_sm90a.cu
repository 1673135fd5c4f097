// The exact product of two slices: all four products of slices in one sweep along k, their sums in
// registers; tiles of 128 x 128 outputs.
#include <type_traits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/pair_pipeline.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {
namespace {

constexpr int kColumns = kPairColumns;
constexpr int kWords = kPairWords;
/// Chunks of 128 whose two products of a high and a low slice fit int32: 2^14 each.
constexpr int kMaxChunks = 511;
/// Doubts of a tile from which on more slices take less time.
constexpr unsigned kMaxDoubts = kTileRows * kColumns / 2;

/// Factors of K-vectors in binary32; of their products those between the last two leave bounds and
/// results normal enough: sums are below 2^48, residuals and peaks together from 2^-62 on.
constexpr float kLeastFactor = 0x1p-110f;
constexpr float kGreatestFactor = 0x1p60f;
constexpr float kLeastProduct = 0x1p-80f;
constexpr float kGreatestProduct = 0x1p76f;

struct Job {
  Problem p;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
  const Residuals* residuals_a;
  const Residuals* residuals_b;
  Corrections corrections;
  Doubts doubts;
  HardTiles hard;
  std::uint32_t* arrivals;  ///< of the blocks' pace
};

struct Work {
  Tile tile;
  Index a;  ///< window of its first K-vector of a
  Index b;
  int rows;
  int columns;
  int chunks;
  int place;  ///< of its first chunk along k
  int k_vector_a;
  int k_vector_b;
  bool hard;
};

/// True if one of `count` K-vectors has too many residuals, the warp together.
__device__ bool any_long(const KVectorWindow* window, int count) {
  bool found = false;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
    found = found || window[i].slices == kManyResiduals;
  }
  return __any_sync(~0u, found) != 0;
}

__device__ Work work_of(const Job& job, Index index) {
  const Problem& p = job.p;
  Work work{};
  work.tile = tile_of<kColumns>(p, index);
  const Tile& t = work.tile;
  const GroupSpan& span = p.span[t.group];
  work.a = p.contracts_rows() ? t.group * p.a.rows + t.row : span.start + t.row;
  work.b = t.group * p.b.rows + t.column;
  work.rows = static_cast<int>(min(Index{kTileRows}, p.rows_of(t.group) - t.row));
  work.columns = static_cast<int>(min(Index{kColumns}, p.b.rows - t.column));
  work.chunks = static_cast<int>((p.length_of(t.group) + 127) / 128);
  work.place = p.contracts_rows() ? span.packed * 128 : 0;
  work.k_vector_a = static_cast<int>(p.contracts_rows() ? t.row : work.a);
  work.k_vector_b = static_cast<int>(p.contracts_rows() ? t.column : work.b);
  work.hard = work.chunks > kMaxChunks || any_long(job.window_a + work.a, work.rows) ||
              any_long(job.window_b + work.b, work.columns);
  return work;
}

/// The corrections that outputs of a type take.
template <typename Out>
__device__ const auto* corrections_of(const Corrections& corrections) {
  if constexpr (std::is_same_v<Out, float>) {
    return corrections.by_integers;
  } else {
    return corrections.by_high_slices;
  }
}

template <typename Out>
__device__ void fetch_tiles(const Job& job, PairPipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const Index tiles = tiles_of<kColumns>(job.p);
  pipeline.keep_pace(job.arrivals);
  const auto* corrections = corrections_of<Out>(job.corrections);
  constexpr auto kBytes = static_cast<std::uint32_t>(Corrections::kTile * sizeof(*corrections));
  static_assert(kBytes <= kPairStageBytes);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Work work = work_of(job, index);
    if (threadIdx.x % 32 == 0 && !work.hard) {
      const Tile& t = work.tile;
      const Index tile = Corrections::place(job.p, t.group, t.row, t.column);
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, work.k_vector_b);
      pipeline.fetch(corrections + tile * Corrections::kTile, kBytes);
    }
    __syncwarp();
  }
}

/// What the outputs need of a K-vector.
struct Fact {
  float factor;  ///< of its integers: 2^q, and a row-wise scale
  float left;    ///< at least the sum of its residuals' magnitudes; infinite: no output is decided
};

/// Brings the facts of a tile's K-vectors to shared memory; all threads that multiply, which others
/// see after a barrier.
__device__ void read_facts(const Job& job, const Work& work, Fact* facts) {
  const Problem& p = job.p;
  const int i = static_cast<int>(threadIdx.x);
  const bool of_a = i < kTileRows;
  const int k_vector = of_a ? i : i - kTileRows;
  if (k_vector < (of_a ? work.rows : work.columns)) {
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
    const bool plain = small && head.slices < kBeyond && fabsf(factor) >= kLeastFactor &&
                       fabsf(factor) <= kGreatestFactor;
    facts[i] = {plain ? factor : 1.0f, plain ? head.sum : INFINITY};
  }
}

/// Two numbers to the nearest bf16, ties to even, the first in the lower half.
__device__ std::uint32_t nearest_two(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ float part(std::uint32_t w) { return static_cast<float>(static_cast<std::int32_t>(w)); }
__device__ double long_part(std::uint32_t w) {
  return static_cast<double>(static_cast<std::int32_t>(w));
}

/// The rounding of an output to bf16, corrected by high slices: what these leave of an integer is
/// at most 128, roundings of a correction are less than a quarter of that, what is left at one
/// place by both is less than that sum, and 4 for sums in binary32.  In binary32, off by less than
/// 16 roundings of the magnitudes, which are 2^-24 each: of the three parts, of three sums, of the
/// magnitudes, of the factors, their product and its with the sum, of the bound, of the ends.
__device__ RoundingTest round_sum(std::uint32_t w2, std::uint32_t w1, std::uint32_t w0,
                                  __half correction, const Fact& a, const Fact& b) {
  const float high = part(w2);
  const float middle = part(w1);
  const float low = part(w0);
  const float of_residuals = __half2float(correction);
  const float sum = fmaf(of_residuals, 256.0f, fmaf(fmaf(high, 256.0f, middle), 256.0f, low));
  const float magnitude = fmaf(fabsf(of_residuals), 256.0f,
                               fmaf(fmaf(fabsf(high), 256.0f, fabsf(middle)), 256.0f, fabsf(low)));
  const float left = a.left + b.left;
  const float bound = left > 0.0f ? fmaf(left, 162.0f, 4.0f) : 0.0f;
  const float off = fmaf(magnitude, 0x1p-20f, bound * 1.0001f);
  const float factor = a.factor * b.factor;
  const float slack = off * fabsf(factor);
  const std::uint32_t ends = nearest_two(fmaf(sum, factor, -slack), fmaf(sum, factor, slack));
  const std::uint32_t lower = ends & 0xFFFF;
  return {lower, lower == ends >> 16 && fabsf(factor) >= kLeastProduct &&
                     fabsf(factor) <= kGreatestProduct};
}
/// The same to f32, corrected exactly: many results are ties, as elements have few bits.
__device__ RoundingTest round_sum(std::uint32_t w2, std::uint32_t w1, std::uint32_t w0,
                                  float correction, const Fact& a, const Fact& b) {
  const double sum = (long_part(w2) * 256 + long_part(w1)) * 256 + long_part(w0);
  const TwoSum all = two_sum(sum, static_cast<double>(correction));
  const double off = a.left + b.left < INFINITY ? fabs(all.lost) : HUGE_VAL;
  return test_rounding(all.sum, off, static_cast<double>(a.factor) * static_cast<double>(b.factor),
                       0, 23);
}

/// Writes output (row, column) and its right neighbour, `stored` of them.
__device__ void store(const Problem& p, float*, Index at, const std::uint32_t (&bits)[2],
                      const bool (&stored)[2]) {
  auto* out = static_cast<std::uint32_t*>(p.out.data) + at;
  const bool together = stored[0] && stored[1] && p.out_column_step == 1 &&
                        reinterpret_cast<std::uintptr_t>(out) % 8 == 0;
  if (together) {
    *reinterpret_cast<uint2*>(out) = {bits[0], bits[1]};
    return;
  }
  if (stored[0]) out[0] = bits[0];
  if (stored[1]) out[p.out_column_step] = bits[1];
}
__device__ void store(const Problem& p, BF16*, Index at, const std::uint32_t (&bits)[2],
                      const bool (&stored)[2]) {
  auto* out = static_cast<std::uint16_t*>(p.out.data) + at;
  const bool together = stored[0] && stored[1] && p.out_column_step == 1 &&
                        reinterpret_cast<std::uintptr_t>(out) % 4 == 0;
  if (together) {
    *reinterpret_cast<std::uint32_t*>(out) = bits[0] | bits[1] << 16;
    return;
  }
  if (stored[0]) out[0] = static_cast<std::uint16_t>(bits[0]);
  if (stored[1]) out[p.out_column_step] = static_cast<std::uint16_t>(bits[1]);
}

/// What the threads that multiply share for a tile.
struct Plan {
  Work work;
  Fact facts[kTileRows + kColumns];
  unsigned of_warp[8];       ///< doubts of each warp
  unsigned long long first;  ///< place of the tile's doubts
  bool hard;
};
/// The tile at hand, the one after it, and the one before, whose doubts the other warpgroup may
/// still be listing.
constexpr int kPlans = 3;

__device__ void set_hard(const Job& job, const Work& work) {
  const Tile& t = work.tile;
  job.hard.tile[HardTiles::place(job.p, t.group, t.row, t.column)] = 1;
  *job.hard.any = 1;
}

/// Lists this thread's doubts, a bit each.
__device__ void list_doubts(const Job& job, int group, const PairSums& sums,
                            const std::uint32_t (&doubts)[2], Plan& plan) {
  const Work& work = plan.work;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned own = static_cast<unsigned>(__popc(doubts[0]) + __popc(doubts[1]));
  unsigned before = own;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned other = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += other;
  }
  if (lane == 31) plan.of_warp[warp] = before;
  before -= own;
  wait_for_multipliers();
  if (threadIdx.x == 0) {
    unsigned total = 0;
    for (const unsigned of_warp : plan.of_warp) total += of_warp;
    const bool many = total > kMaxDoubts;
    plan.first = many || total == 0
                     ? job.doubts.capacity
                     : atomicAdd(job.doubts.count, static_cast<unsigned long long>(total));
    plan.hard = many || (total > 0 && plan.first + total > job.doubts.capacity);
    if (plan.hard) set_hard(job, work);
  }
  wait_for_multipliers();
  for (int i = 0; i < warp; ++i) before += plan.of_warp[i];
  unsigned long long at = plan.first + before;
  const bool none = plan.hard;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if ((doubts[i / 32] >> i % 32 & 1u) == 0 || at >= job.doubts.capacity) continue;
    const std::int64_t sum =
        static_cast<std::int64_t>(static_cast<std::int32_t>(sums.w2[i])) * 65536 +
        static_cast<std::int64_t>(static_cast<std::int32_t>(sums.w1[i])) * 256 +
        static_cast<std::int32_t>(sums.w0[i]);
    const Index a = work.a + group * 64 + row_of_word(i);
    const Index b = work.b + column_of_word(i);
    job.doubts.list[at++] = {none ? kNoDoubt : static_cast<std::uint32_t>(a),
                             static_cast<std::uint32_t>(b), static_cast<double>(sum)};
  }
}

/// Rounds and writes this thread's outputs, and lists those that failed the rounding test.
template <typename Out>
__device__ void write(const Job& job, int group, const PairSums& sums, PairPipeline& pipeline,
                      Plan& plan) {
  const Work& work = plan.work;
  const Fact* facts = plan.facts;
  const Problem& p = job.p;
  const int first_row = group * 64 + row_of_word(0);
  const int first_column = column_of_word(0);
  const Index corner = p.out_at(work.tile.group, work.tile.row, work.tile.column) +
                       first_row * p.out_row_step + first_column * p.out_column_step;
  std::uint32_t doubts[2] = {};
  using Correction = std::remove_cvref_t<decltype(*corrections_of<Out>(job.corrections))>;
  const auto* corrections = static_cast<const Correction*>(pipeline.wait_for_stage());
#pragma unroll
  for (int i = 0; i < kWords; i += 2) {
    const int row = first_row + i / 2 % 2 * 8;
    const int column = first_column + i / 4 * 8;
    std::uint32_t bits[2];
    bool stored[2];
    struct alignas(2 * sizeof(Correction)) Pair {
      Correction of[2];
    };
    const auto pair = *reinterpret_cast<const Pair*>(corrections + Corrections::at(row, column));
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int n = i + side;
      const RoundingTest rounded = round_sum(sums.w2[n], sums.w1[n], sums.w0[n], pair.of[side],
                                             facts[row], facts[kTileRows + column + side]);
      const bool there = row < work.rows && column + side < work.columns;
      bits[side] = rounded.bits;
      stored[side] = there && rounded.passed;
      if (there && !rounded.passed) doubts[n / 32] |= 1u << n % 32;
    }
    store(p, static_cast<Out*>(nullptr),
          corner + i / 2 % 2 * 8 * p.out_row_step + i / 4 * 8 * p.out_column_step, bits, stored);
    asm volatile("" ::: "memory");  // one pair at a time: registers are few
  }
  pipeline.return_stage();
  list_doubts(job, group, sums, doubts, plan);
}

/// What tile `index` needs, if there is one.
__device__ void make_plan(const Job& job, Index index, Index tiles, Plan& plan) {
  if (index >= tiles) return;
  const Work work = work_of(job, index);
  if (threadIdx.x == 0) plan.work = work;
  if (!work.hard) read_facts(job, work, plan.facts);
}

template <typename Out>
__device__ void multiply_tiles(const Job& job, PairPipeline& pipeline, int group,
                               Plan (&plans)[kPlans]) {
  const Index tiles = tiles_of<kColumns>(job.p);
  int now = 0;
  make_plan(job, blockIdx.x, tiles, plans[now]);
  wait_for_multipliers();
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    Plan& plan = plans[now];
    now = (now + 1) % kPlans;
    const auto plan_next = [&] { make_plan(job, index + gridDim.x, tiles, plans[now]); };
    if (plan.work.hard) {
      if (threadIdx.x == 0) set_hard(job, plan.work);
      plan_next();
      wait_for_multipliers();
    } else {
      PairSums sums;
      pipeline.multiply(sums, plan.work.chunks, group, plan_next);
      write<Out>(job, group, sums, pipeline, plan);
    }
  }
}

template <typename Out>
__global__ void __launch_bounds__(kPipelineThreads, 1)
    two_slices_product_kernel(const __grid_constant__ CUtensorMap a,
                              const __grid_constant__ CUtensorMap b,
                              const __grid_constant__ Job job) {
  extern __shared__ std::uint8_t tiles[];
  __shared__ Plan plans[kPlans];
  PairPipeline pipeline(tiles);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles<Out>(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles<Out>(job, pipeline, group, plans);
  }
}

}  // namespace

void multiply_two_slices(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                         const TwoSlices& b, const Corrections& corrections, const Doubts& doubts,
                         const HardTiles& hard) {
  const auto map = [](const KVectorMemory& m) {
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, 2, m.group_bytes, 128);
  };
  const auto blocks = static_cast<unsigned>(backend.multiprocessors());
  Scratch<std::uint32_t> arrivals(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(arrivals.data()), sizeof(std::uint32_t));
  const Job job{
      p,    a.slices.window, b.slices.window, a.residuals, b.residuals, corrections, doubts,
      hard, arrivals.data()};
  const auto run = [&](auto* kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kPairBytes),
          "cudaFuncSetAttribute");
    kernel<<<blocks, kPipelineThreads, kPairBytes, backend.stream()>>>(map(a.slices.memory),
                                                                       map(b.slices.memory), job);
  };
  run(p.out.dtype == Dtype::f32 ? two_slices_product_kernel<float>
                                : two_slices_product_kernel<BF16>);
  check_launch("two_slices_product_kernel");
}

}  // namespace mxo::cuda
