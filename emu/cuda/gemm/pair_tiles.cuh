// Tiles of 128 x 128 outputs of two slices: which they are, how they come, and what becomes of
// their outputs.  A Scheme says how they are summed and rounded:
//   Out, Sums, Fact             of an output, of a thread's, what outputs need of a K-vector
//   kMaxDoubts                  of a tile, from which on more slices take less time
//   corrections(job)            the ones it takes
//   fact_of(job, work, of_a, i) of K-vector i of the tile
//   multiply(job, work, pipeline, group, sums, meanwhile)
//   round(sums, n, corrections, fact of a, facts of b)  outputs n and n + 1, which are neighbours
//   integer(sums, n)            the product of the integers
#pragma once

#include <type_traits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/pair_pipeline.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {

/// Chunks of 128 whose two products of a high and a low slice fit int32: 2^14 each.
inline constexpr int kMaxPairChunks = 511;

struct PairJob {
  Problem p;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
  const Residuals* residuals_a;
  const Residuals* residuals_b;
  RunScales scales_a;
  RunScales scales_b;
  Corrections corrections;
  Doubts doubts;
  HardTiles hard;
  std::uint32_t* arrivals;       ///< of the blocks' pace
  HardTiles of;                  ///< tiles that are wanted; none: all
  bool all_lows;                 ///< of three slices, whatever K-vectors have
  const std::int32_t* given_up;  ///< not 0: there is nothing to multiply
};

struct PairWork {
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
  bool wanted;
  int lows;  ///< kLowsOfA, kLowsOfB: of three slices, those that are many
};

/// What K-vectors of a tile have.
struct TileMarks {
  bool residuals;  ///< too many
  bool lows;       ///< many
};
/// Of `count` K-vectors, the warp together.
__device__ inline TileMarks marks_of(const KVectorWindow* window, int count) {
  unsigned found = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
    const std::int32_t slices = window[i].slices;
    found |= slices == kManyResiduals ? 1u : slices == kManyLows ? 2u : 0u;
  }
  found = __reduce_or_sync(~0u, found);
  return {(found & 1u) != 0, (found & 2u) != 0};
}

__device__ inline PairWork pair_work_of(const PairJob& job, Index index) {
  const Problem& p = job.p;
  PairWork work{};
  work.tile = tile_of<kPairColumns>(p, index);
  const Tile& t = work.tile;
  const GroupSpan& span = p.span[t.group];
  work.a = p.contracts_rows() ? t.group * p.a.rows + t.row : span.start + t.row;
  work.b = t.group * p.b.rows + t.column;
  work.rows = static_cast<int>(min(Index{kTileRows}, p.rows_of(t.group) - t.row));
  work.columns = static_cast<int>(min(Index{kPairColumns}, p.b.rows - t.column));
  work.chunks = static_cast<int>((p.length_of(t.group) + 127) / 128);
  work.place = p.contracts_rows() ? span.packed * 128 : 0;
  work.k_vector_a = static_cast<int>(p.contracts_rows() ? t.row : work.a);
  work.k_vector_b = static_cast<int>(p.contracts_rows() ? t.column : work.b);
  work.wanted =
      job.of.tile == nullptr || job.of.tile[HardTiles::place(p, t.group, t.row, t.column)] != 0;
  if (!work.wanted) return work;
  const TileMarks of_a = marks_of(job.window_a + work.a, work.rows);
  const TileMarks of_b = marks_of(job.window_b + work.b, work.columns);
  work.hard = work.chunks > kMaxPairChunks || of_a.residuals || of_b.residuals;
  work.lows = (of_a.lows ? kLowsOfA : 0) | (of_b.lows ? kLowsOfB : 0);
  if (job.all_lows) {
    work.hard = work.hard || work.lows == (kLowsOfA | kLowsOfB);  // it was tried
    work.lows = kLowsOfA | kLowsOfB;
  }
  return work;
}

template <typename Scheme>
__device__ void fetch_tiles(const PairJob& job, PairPipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const Index tiles = tiles_of<kPairColumns>(job.p);
  pipeline.keep_pace(job.arrivals);
  const auto* corrections = Scheme::corrections(job);
  constexpr auto kBytes = static_cast<std::uint32_t>(Corrections::kTile * sizeof(*corrections));
  static_assert(kBytes <= kPairStageBytes);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const PairWork work = pair_work_of(job, index);
    if (threadIdx.x % 32 == 0 && !work.hard) {
      const Tile& t = work.tile;
      const Index tile = Corrections::place(job.p, t.group, t.row, t.column);
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, work.k_vector_b);
      pipeline.fetch(corrections + tile * Corrections::kTile, kBytes);
    }
    __syncwarp();
  }
}

/// Two neighbours of a row as they are written together, and which of them are decided.
struct RoundedPair {
  uint2 bits;  ///< of bf16 the first word has both
  bool passed[2];
};

/// Two numbers to the nearest bf16, ties to even, the first in the lower half.
__device__ inline std::uint32_t nearest_two(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

/// Where outputs of a tile lie, and whether two neighbours are always there and one word.
struct Place {
  void* out;
  bool in_words;
};
template <typename Out>
__device__ Place place_of_outputs(const Problem& p, const PairWork& work) {
  const Index corner = p.out_at(work.tile.group, work.tile.row, work.tile.column);
  auto* out = static_cast<Out*>(p.out.data) + corner;
  return {out, work.rows == kTileRows && work.columns == kPairColumns && p.out_column_step == 1 &&
                   p.out_row_step % 2 == 0 &&
                   reinterpret_cast<std::uintptr_t>(out) % (2 * sizeof(Out)) == 0};
}

__device__ inline void store_pair(float* out, const uint2& bits) {
  *reinterpret_cast<uint2*>(out) = bits;
}
__device__ inline void store_pair(BF16* out, const uint2& bits) {
  *reinterpret_cast<std::uint32_t*>(out) = bits.x;
}
__device__ inline void store_one(float* out, const uint2& bits, int side) {
  *reinterpret_cast<std::uint32_t*>(out) = side == 0 ? bits.x : bits.y;
}
__device__ inline void store_one(BF16* out, const uint2& bits, int side) {
  *reinterpret_cast<std::uint16_t*>(out) =
      static_cast<std::uint16_t>(side == 0 ? bits.x : bits.x >> 16);
}

/// What the threads that multiply share for a tile.
template <typename Scheme>
struct Plan {
  PairWork work;
  typename Scheme::Fact facts[kTileRows + kPairColumns];
};
inline constexpr int kPlans = 2;  ///< of the tile at hand, and of the one after it

__device__ inline void set_hard(const PairJob& job, const PairWork& work) {
  const Tile& t = work.tile;
  job.hard.tile[HardTiles::place(job.p, t.group, t.row, t.column)] = 1;
  *job.hard.any = 1;
}

/// Lists the doubts of a warp, a bit each; too many of them make the tile hard.
template <typename Scheme>
__device__ void list_doubts(const PairJob& job, int group, const typename Scheme::Sums& sums,
                            const std::uint32_t (&doubts)[2], const PairWork& work) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto own = static_cast<unsigned>(__popc(doubts[0]) + __popc(doubts[1]));
  const unsigned total = __reduce_add_sync(~0u, own);
  if (total == 0) return;
  if (total > Scheme::kMaxDoubts / 8) {
    if (lane == 0) set_hard(job, work);
    return;
  }
  unsigned long long first = 0;
  if (lane == 0) {
    first = atomicAdd(job.doubts.count, static_cast<unsigned long long>(total));
    if (first + total > job.doubts.capacity) set_hard(job, work);
  }
  first = __shfl_sync(~0u, first, 0);
  const bool none = first + total > job.doubts.capacity;
  unsigned before = own;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned other = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += other;
  }
  unsigned long long at = first + before - own;
#pragma unroll
  for (int some = 0; some < kPairWords; some += 8) {
    const std::uint32_t bits = doubts[some / 32] >> some % 32 & 0xFF;
    if (bits == 0) continue;
#pragma unroll
    for (int i = some; i < some + 8; ++i) {
      if ((bits >> i % 8 & 1u) == 0 || at >= job.doubts.capacity) continue;
      const Index a = work.a + group * 64 + row_of_word(i);
      const Index b = work.b + column_of_word(i);
      job.doubts.list[at++] = {none ? kNoDoubt : static_cast<std::uint32_t>(a),
                               static_cast<std::uint32_t>(b), Scheme::integer(sums, i)};
    }
  }
}

/// Rounds and writes this thread's outputs, and lists those that failed the rounding test.
template <typename Scheme>
__device__ void write(const PairJob& job, int group, const typename Scheme::Sums& sums,
                      PairPipeline& pipeline, const Plan<Scheme>& plan) {
  using Out = typename Scheme::Out;
  using Fact = typename Scheme::Fact;
  using Correction = std::remove_cvref_t<decltype(*Scheme::corrections(job))>;
  struct alignas(2 * sizeof(Correction)) Corrected {
    Correction of[2];
  };
  const PairWork& work = plan.work;
  const Problem& p = job.p;
  const int first_row = group * 64 + row_of_word(0);
  const int first_column = column_of_word(0);
  const Place place = place_of_outputs<Out>(p, work);
  const Fact of_rows[2] = {plan.facts[first_row], plan.facts[first_row + 8]};
  std::uint32_t doubts[2] = {};
  const auto* corrections = static_cast<const Correction*>(pipeline.wait_for_stage());
#pragma unroll
  for (int i = 0; i < kPairWords; i += 4) {
    const int column = first_column + i / 4 * 8;
    const Fact of_columns[2] = {plan.facts[kTileRows + column], plan.facts[kTileRows + column + 1]};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + half * 8;
      const int n = i + half * 2;
      const auto corrected =
          *reinterpret_cast<const Corrected*>(corrections + Corrections::at(row, column));
      const RoundedPair rounded = Scheme::round(sums, n, corrected.of, of_rows[half], of_columns);
      auto* out = static_cast<Out*>(place.out) + row * p.out_row_step + column * p.out_column_step;
      if (place.in_words && rounded.passed[0] && rounded.passed[1]) {
        store_pair(out, rounded.bits);
        continue;
      }
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        if (row >= work.rows || column + side >= work.columns) continue;
        if (rounded.passed[side]) {
          store_one(out + side * p.out_column_step, rounded.bits, side);
        } else {
          doubts[n / 32] |= 1u << (n + side) % 32;
        }
      }
    }
    asm volatile("" ::: "memory");  // two pairs at a time: registers are few
  }
  pipeline.return_stage();
  list_doubts<Scheme>(job, group, sums, doubts, work);
  wait_for_multipliers();
}

/// What tile `index` needs, if there is one: all threads that multiply, which others see after a
/// barrier.
template <typename Scheme>
__device__ void make_plan(const PairJob& job, Index index, Index tiles, Plan<Scheme>& plan) {
  if (index >= tiles) return;
  const PairWork work = pair_work_of(job, index);
  if (threadIdx.x == 0) plan.work = work;
  if (work.hard || !work.wanted) return;
  const int i = static_cast<int>(threadIdx.x);
  const bool of_a = i < kTileRows;
  const int k_vector = of_a ? i : i - kTileRows;
  if (k_vector < (of_a ? work.rows : work.columns)) {
    plan.facts[i] = Scheme::fact_of(job, work, of_a, k_vector);
  }
}

template <typename Scheme>
__device__ void multiply_tiles(const PairJob& job, PairPipeline& pipeline, int group,
                               Plan<Scheme> (&plans)[kPlans]) {
  const Index tiles = tiles_of<kPairColumns>(job.p);
  int now = 0;
  make_plan<Scheme>(job, blockIdx.x, tiles, plans[now]);
  wait_for_multipliers();
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    Plan<Scheme>& plan = plans[now];
    now = (now + 1) % kPlans;
    const auto plan_next = [&] { make_plan<Scheme>(job, index + gridDim.x, tiles, plans[now]); };
    if (plan.work.hard) {
      if (threadIdx.x == 0) set_hard(job, plan.work);
      plan_next();
      wait_for_multipliers();
    } else {
      typename Scheme::Sums sums;
      Scheme::multiply(job, plan.work, pipeline, group, sums, plan_next);
      write<Scheme>(job, group, sums, pipeline, plan);
    }
  }
}

template <typename Scheme>
__global__ void __launch_bounds__(kPipelineThreads, 1)
    pair_product_kernel(const __grid_constant__ CUtensorMap a,
                        const __grid_constant__ CUtensorMap b,
                        const __grid_constant__ PairJob job) {
  if (job.given_up != nullptr && *job.given_up != 0) return;
  extern __shared__ std::uint8_t tiles[];
  __shared__ Plan<Scheme> plans[kPlans];
  PairPipeline pipeline(tiles);
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles<Scheme>(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles<Scheme>(job, pipeline, group, plans);
  }
}

/// All tiles but hard ones by a Scheme.
template <typename Scheme>
void multiply_pairs(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                    const TwoSlices& b, const Corrections& corrections, const Doubts& doubts,
                    const HardTiles& hard) {
  const auto map = [](const KVectorMemory& m) {
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, 2, m.group_bytes, 128);
  };
  Scratch<std::uint32_t> arrivals(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(arrivals.data()), sizeof(std::uint32_t));
  const PairJob job{
      p,        a.slices.window, b.slices.window, a.residuals, b.residuals,     a.scales,
      b.scales, corrections,     doubts,          hard,        arrivals.data(), {},
      false,    a.given_up};
  auto* kernel = pair_product_kernel<Scheme>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kPairBytes),
        "cudaFuncSetAttribute");
  kernel<<<static_cast<unsigned>(backend.multiprocessors()), kPipelineThreads, kPairBytes,
           backend.stream()>>>(map(a.slices.memory), map(b.slices.memory), job);
  check_launch("pair_product_kernel");
}

}  // namespace mxo::cuda
