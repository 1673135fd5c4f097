// The exact product of three slices into bf16: the six products of the greatest weights in one
// sweep along k, their sums in registers, after a sweep of the next weight's where lists do not
// hold them; tiles of 128 x 128 outputs.
#include "emu/cuda/gemm/pair_tiles.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/three_slices.cuh"
#include "emu/cuda/gemm/triple_pipeline.cuh"

namespace mxo::cuda {
namespace {

__device__ float part(std::uint32_t w) { return static_cast<float>(static_cast<std::int32_t>(w)); }

/// Sums w2, w1 and w0 count 65536, 256 and 1 times 65536 quanta of both K-vectors.
struct TripleSums {
  using Out = BF16;
  using Sums = PairSums;
  using Fact = TripleFact;

  __device__ static Fact fact_of(const PairJob& job, const PairWork& work, bool of_a,
                                 int k_vector) {
    const KVectorWindow& w =
        of_a ? job.window_a[work.a + k_vector] : job.window_b[work.b + k_vector];
    if (w.slices == 0) return {0.0f, 0.0f};
    if (w.slices >= kBeyond) return {1.0f, INFINITY};
    const bool added = (work.lows & (of_a ? kLowsOfA : kLowsOfB)) != 0;
    return {__int_as_float((w.quantum + 8 + 127) << 23), w.residual + share_of_lows(w.peak, added)};
  }

  __device__ static TripleEnds ends_of(const Sums& sums, int n, const Fact& a, const Fact& b) {
    return ends_of_triple(part(sums.w2[n]), part(sums.w1[n]), part(sums.w0[n]), a, b);
  }
  __device__ static RoundedPair round(const Sums& sums, int n, const Fact& a, const Fact (&b)[2]) {
    const TripleEnds first = ends_of(sums, n, a, b[0]);
    const TripleEnds second = ends_of(sums, n + 1, a, b[1]);
    const std::uint32_t low = nearest_two(first.low, second.low);
    const std::uint32_t differ = low ^ nearest_two(first.high, second.high);
    return {{low, 0}, {(differ & 0xFFFF) == 0, differ >> 16 == 0}};
  }
  /// In quanta, exact: a multiple of 65536 below 2^63.
  __device__ static double integer(const Sums& sums, int n) {
    const auto of = [n](const std::uint32_t(&w)[kPairWords]) {
      return static_cast<std::int64_t>(static_cast<std::int32_t>(w[n]));
    };
    return 65536.0 * static_cast<double>(of(sums.w2) * 65536 + of(sums.w1) * 256 + of(sums.w0));
  }
};

/// Lists this thread's doubts, a bit each; too many of them make the tile hard.
__device__ void list_doubts(const PairJob& job, const TileDoubts& all, int group,
                            const PairSums& sums, const std::uint32_t (&doubts)[2],
                            const PairWork& work) {
  const auto own = static_cast<std::uint32_t>(__popc(doubts[0]) + __popc(doubts[1]));
  if (own == 0) return;
  const Tile& t = work.tile;
  const Index tile = Corrections::place(job.p, t.group, t.row, t.column);
  const std::uint32_t first = atomicAdd(all.count + tile, own);
  if (first + own > TileDoubts::kTile) return set_hard(job, work);
  TileDoubt* to = all.list + tile * TileDoubts::kTile + first;
#pragma unroll
  for (int i = 0; i < kPairWords; ++i) {
    if ((doubts[i / 32] >> i % 32 & 1u) == 0) continue;
    *to++ = {static_cast<std::uint8_t>(group * 64 + row_of_word(i)),
             static_cast<std::uint8_t>(column_of_word(i)), static_cast<std::uint8_t>(work.lows), 0,
             TripleSums::integer(sums, i)};
  }
}

__device__ void fetch_tiles(const PairJob& job, TriplePipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const Index tiles = tiles_of<kPairColumns>(job.p);
  pipeline.keep_pace(job.arrivals);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const PairWork work = pair_work_of(job, index);
    if (threadIdx.x % 32 == 0 && work.wanted && !work.hard) {
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, work.k_vector_b, work.lows);
    }
    __syncwarp();
  }
}

/// Rounds and writes this thread's outputs, and lists those that failed the rounding test.
__device__ void write(const PairJob& job, const TileDoubts& all, int group, const PairSums& sums,
                      const Plan<TripleSums>& plan) {
  using Fact = TripleSums::Fact;
  const PairWork& work = plan.work;
  const Problem& p = job.p;
  const int first_row = group * 64 + row_of_word(0);
  const int first_column = column_of_word(0);
  const Place place = place_of_outputs<BF16>(p, work);
  const Fact of_rows[2] = {plan.facts[first_row], plan.facts[first_row + 8]};
  std::uint32_t doubts[2] = {};
#pragma unroll
  for (int n = 0; n < kPairWords; n += 2) {
    const int row = first_row + n / 2 % 2 * 8;
    const int column = first_column + n / 4 * 8;
    const Fact of_columns[2] = {plan.facts[kTileRows + column], plan.facts[kTileRows + column + 1]};
    const RoundedPair rounded = TripleSums::round(sums, n, of_rows[n / 2 % 2], of_columns);
    BF16* out = static_cast<BF16*>(place.out) + row * p.out_row_step + column * p.out_column_step;
    if (place.in_words && rounded.passed[0] && rounded.passed[1]) {
      store_pair(out, rounded.bits);
    } else {
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
    if (n % 4 == 2) asm volatile("" ::: "memory");  // two pairs at a time: registers are few
  }
  list_doubts(job, all, group, sums, doubts, work);
  wait_for_multipliers();
}

__device__ void multiply_tiles(const PairJob& job, const TileDoubts& doubts,
                               TriplePipeline& pipeline, int group,
                               Plan<TripleSums> (&plans)[kPlans]) {
  const Index tiles = tiles_of<kPairColumns>(job.p);
  int now = 0;
  make_plan<TripleSums>(job, blockIdx.x, tiles, plans[now]);
  wait_for_multipliers();
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Plan<TripleSums>& plan = plans[now];
    now = (now + 1) % kPlans;
    const auto plan_next = [&] {
      make_plan<TripleSums>(job, index + gridDim.x, tiles, plans[now]);
    };
    if (plan.work.hard || !plan.work.wanted) {
      if (threadIdx.x == 0 && plan.work.hard) set_hard(job, plan.work);
      plan_next();
      wait_for_multipliers();
    } else {
      PairSums sums;
      pipeline.multiply(sums, plan.work.chunks, group, plan.work.lows, plan_next);
      write(job, doubts, group, sums, plan);
    }
  }
}

__global__ void __launch_bounds__(kPipelineThreads, 1)
    triple_product_kernel(const __grid_constant__ CUtensorMap a,
                          const __grid_constant__ CUtensorMap b,
                          const __grid_constant__ PairJob job,
                          const __grid_constant__ TileDoubts doubts) {
  if (job.of.any != nullptr && *job.of.any == 0) return;
  extern __shared__ std::uint8_t tiles[];
  __shared__ Plan<TripleSums> plans[kPlans];
  TriplePipeline pipeline(tiles);
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles(job, doubts, pipeline, group, plans);
  }
}

/// Every output that passes the rounding test; the others go to `doubts`, or their tile to `hard`.
void multiply(DeviceBackend& backend, const Problem& p, const ThreeSlices& a, const ThreeSlices& b,
              const HardTiles& of, bool all_lows, const TileDoubts& doubts, const HardTiles& hard) {
  const auto map = [](const KVectorMemory& m) {
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, 3, m.group_bytes, 128);
  };
  Scratch<std::uint32_t> arrivals(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(arrivals.data()), sizeof(std::uint32_t));
  PairJob job{};
  job.p = p;
  job.window_a = a.slices.window;
  job.window_b = b.slices.window;
  job.hard = hard;
  job.arrivals = arrivals.data();
  job.of = of;
  job.all_lows = all_lows;
  check(cudaFuncSetAttribute(triple_product_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kTripleBytes),
        "cudaFuncSetAttribute");
  triple_product_kernel<<<static_cast<unsigned>(backend.multiprocessors()), kPipelineThreads,
                          kTripleBytes, backend.stream()>>>(map(a.slices.memory),
                                                            map(b.slices.memory), job, doubts);
  check_launch("triple_product_kernel");
}

}  // namespace

void multiply_by_three_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                              const KVectorMemory& b, const HardTiles& all, const HardTiles& again,
                              const HardTiles& hard) {
  Scratch<std::int32_t> wanted(backend, 1);
  const HardTiles of = tiles_of_three_slices(backend, p, a, b, all, hard, wanted.data());
  ThreeSliceScratch scratch_a;
  ThreeSliceScratch scratch_b;
  const ThreeSlices of_a = make_three_slices(backend, p, p.a, a, p.a.rows, of.any, scratch_a);
  const ThreeSlices of_b = make_three_slices(backend, p, p.b, b, p.b.rows, of.any, scratch_b);
  const Index tiles = sides_a(p) * (p.contracts_rows() ? p.groups : 1) * ceil_div(p.b.rows, kSide);
  Scratch<TileDoubt> list(backend, tiles * TileDoubts::kTile);
  Scratch<std::uint32_t> count(backend, tiles);
  const TileDoubts doubts{list.data(), count.data()};
  const auto run = [&](const HardTiles& tiles_of, bool all_lows, const HardTiles& left) {
    backend.fill_zero(reinterpret_cast<std::byte*>(count.data()),
                      static_cast<std::size_t>(tiles) * sizeof(std::uint32_t));
    multiply(backend, p, of_a, of_b, tiles_of, all_lows, doubts, left);
    settle_tile_doubts(backend, p, of_a, of_b, doubts, tiles_of.any);
  };
  run(of, false, again);
  run(again, true, hard);
}

}  // namespace mxo::cuda
