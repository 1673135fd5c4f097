// Outputs whose rounding three slices' greatest weights leave open: what lists hold is added,
// lowest slices of one factor times middle ones of the other or, if the tile's sums have those,
// residuals times high ones.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/failed_output.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/three_slices.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kBatch = 16;  ///< tiles whose doubts are sorted together

/// Tiles of an output: numbers of rows of tiles times those of columns.
struct Tiles {
  Index down;
  Index across;
  __device__ explicit Tiles(const Problem& p)
      : down(p.contracts_rows() ? p.groups * down_of_group(p) : Index{p.span[p.groups].row_tile}),
        across((p.b.rows + kSide - 1) / kSide) {}
  __device__ static Index down_of_group(const Problem& p) { return (p.a.rows + kSide - 1) / kSide; }
  __device__ static Index group_of(const Problem& p, Index row) {
    return p.contracts_rows() ? row / down_of_group(p) : group_at(p, row, &GroupSpan::row_tile);
  }
  /// The first row of tiles of a group.
  __device__ static Index first(const Problem& p, Index group) {
    return p.contracts_rows() ? group * down_of_group(p) : Index{p.span[group].row_tile};
  }
};
/// The first window of a row or a column of tiles.
template <bool OfA>
__device__ Index window_of(const Problem& p, Index group, Index tile) {
  if constexpr (!OfA) return group * p.b.rows + tile * kSide;
  const Index row = (tile - Tiles::first(p, group)) * kSide;
  return (p.contracts_rows() ? group * p.a.rows : Index{p.span[group].start}) + row;
}

/// Slice `n` of K-vector `index`.
__device__ const std::uint8_t* slice_of(const Problem& p, const Factor& f, const Slices& of,
                                        Index index, int n) {
  const KVectorMemory& m = of.memory;
  const Index group = f.k_is_rows ? index / m.k_vectors : 0;
  const Index place = f.k_is_rows ? Index{p.span[group].packed} * 128 : 0;
  return m.data + n * m.group_bytes +
         (f.k_is_rows ? index % m.k_vectors : index) * m.k_vector_bytes + place;
}

/// Lowest slices of a K-vector times the middle ones of another; a warp.  The first loads do not
/// wait for the count: there is memory.
__device__ int products_of_lows(const Lows& lows, const std::int8_t* middle) {
  constexpr int kFirst = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int count = lows.count;
  std::uint32_t first[kFirst];
#pragma unroll
  for (int i = 0; i < kFirst; ++i) first[i] = lows.item[lane + i * 32];
  int sum = 0;
  const auto add = [&](std::uint32_t item) {
    sum += static_cast<std::int8_t>(item >> 16) * middle[item & 0xFFFF];
  };
#pragma unroll
  for (int i = 0; i < kFirst; ++i) {
    if (lane + i * 32 < count) add(first[i]);
  }
#pragma unroll 4
  for (int n = lane + kFirst * 32; n < count; n += 32) add(lows.item[n]);
  return __reduce_add_sync(~0u, sum);
}

/// Residuals of a K-vector, if the list has all of them, times the high slices of another; a warp.
/// Products are exact; a lane adds 8 and the warp 5 times, so that the sum is off by less than 13 *
/// 2^-24 of 256 * 64, 2^-6.
__device__ float products_of_rests(const Lows& lows, const std::int8_t* high) {
  float sum = 0;
  if (lows.rests > kMaxRests) return sum;
  for (int n = static_cast<int>(threadIdx.x) % 32; n < lows.rests; n += 32) {
    const std::uint32_t item = lows.rest[n];
    sum = fmaf(__uint_as_float(item & 0xFFFF0000u), static_cast<float>(high[item & 0xFFFF]), sum);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}

/// False of codes, which seldom leave residuals.
__device__ bool adds_rests_of_a(const Problem& p) { return p.form == ScaleForm::none; }

/// What an output's sums are off by with what lists add, infinite: no bound.
struct Rest {
  double off;
  int quantum;
};
__device__ Rest rest_of(const Problem& p, const ThreeSlices& a, Index of_a, const ThreeSlices& b,
                        Index of_b, int added) {
  const KVectorWindow& window_a = a.slices.window[of_a];
  const KVectorWindow& window_b = b.slices.window[of_b];
  const Lows& lows_a = a.lows[of_a];
  const Lows& lows_b = b.lows[of_b];
  const auto times = [](const Lows& lows, bool side_added) {
    return side_added && lows.rests <= kMaxRests;
  };
  const double off =
      off_of_lists(lows_a.sum, lows_b.sum, window_a.residual_sum,
                   times(lows_a, (added & kLowsOfA) != 0 && adds_rests_of_a(p)),
                   window_b.residual_sum, times(lows_b, (added & kLowsOfB) != 0), added != 0);
  const bool beyond = window_a.slices >= kBeyond || window_b.slices >= kBeyond;
  return {beyond ? HUGE_VAL : off, window_a.quantum + window_b.quantum};
}

/// Writes an output whose sums and lists decide it.
__device__ void write_if_decided(const Problem& p, Index at, double known, double listed,
                                 const Rest& rest, TileDoubt& doubt) {
  const TwoSum all = two_sum(known, listed);
  const RoundingTest rounded =
      test_rounding(all.sum, fabs(all.lost) + rest.off, 1.0, rest.quantum, 7);
  if (!rounded.passed) return;
  static_cast<BF16*>(p.out.data)[at] = BF16{static_cast<std::uint16_t>(rounded.bits)};
  doubt.row = kSettled;
}

/// Lists that a thread goes through by itself.
constexpr int kShortList = 24;

/// A side's lists times the other's middle slices, by one thread: false where they are long, or
/// where those of residuals are wanted.
template <bool OfA>
__device__ bool adds_short_list(const Problem& p, const Lows& lows, int added, const Factor& other,
                                const Slices& slices, Index of_other, std::int32_t& sum) {
  if ((added & (OfA ? kLowsOfA : kLowsOfB)) != 0) return lows.rests == 0;
  if (lows.count > kShortList) return false;
  const auto* middle =
      reinterpret_cast<const std::int8_t*>(slice_of(p, other, slices, of_other, 1));
  for (int n = 0; n < lows.count; ++n) {
    const std::uint32_t item = lows.item[n];
    sum += static_cast<std::int8_t>(item >> 16) * middle[item & 0xFFFF];
  }
  return true;
}

/// Doubts whose lists are short, a thread to one.
__global__ void __launch_bounds__(kThreads)
    settle_short_lists_kernel(Problem p, ThreeSlices a, ThreeSlices b, TileDoubts doubts,
                              const std::int32_t* wanted) {
  if (wanted != nullptr && *wanted == 0) return;
  const Tiles tiles(p);
  for (Index tile = blockIdx.x * Index{kWarps} + threadIdx.x / 32; tile < tiles.down * tiles.across;
       tile += gridDim.x * Index{kWarps}) {
    const std::uint32_t count = doubts.count_of(tile);
    if (count == 0) continue;
    const Index down = tile / tiles.across;
    const Index group = Tiles::group_of(p, down);
    for (std::uint32_t i = threadIdx.x % 32; i < count; i += 32) {
      TileDoubt& doubt = doubts.list[tile * TileDoubts::kTile + i];
      const Index row = (down - Tiles::first(p, group)) * kSide + doubt.row;
      const Index column = tile % tiles.across * kSide + doubt.column;
      const Index of_a = window_of<true>(p, group, down) + doubt.row;
      const Index of_b = group * p.b.rows + column;
      std::int32_t sum = 0;
      if (!adds_short_list<true>(p, a.lows[of_a], doubt.added, p.b, b.slices, of_b, sum)) continue;
      if (!adds_short_list<false>(p, b.lows[of_b], doubt.added, p.a, a.slices, of_a, sum)) continue;
      write_if_decided(p, p.out_at(group, row, column), doubt.sum, 256.0 * sum,
                       rest_of(p, a, of_a, b, of_b, doubt.added), doubt);
    }
  }
}

/// Doubts of some tiles in the order of their row or column, those that have any, and room for the
/// middle slices of two.
struct Sorted {
  std::uint32_t start[kSide + 1];
  std::uint32_t next[kSide];
  std::int32_t line[kSide];
  std::int32_t lines;
  std::uint64_t full[2];
  std::uint32_t order[kBatch * TileDoubts::kTile];  ///< numbers of tile and doubt, its other place
};
constexpr int kNumberBits = 16;
static_assert(kBatch * TileDoubts::kTile <= 1 << kNumberBits);

/// For doubts of tiles down0..down1 x across0..across1 of a group, at most kBatch, in one column of
/// tiles: lists of a times slices of b, K-vector for K-vector of b.  In one row (`OfA`): lists of b
/// times slices of a, and the rounding.  `rests`: of tiles whose sums have the lowest slices.
template <bool OfA>
struct Settling {
  const Problem& p;
  const ThreeSlices& a;
  const ThreeSlices& b;
  const TileDoubts& doubts;
  Index group, down0, down1, across0, across1;
  bool rests;

  __device__ Index tile_at(int n) const {
    const Index across = (p.b.rows + kSide - 1) / kSide;
    return OfA ? down0 * across + across0 + n : (down0 + n) * across + across0;
  }
  template <typename Visit>
  __device__ void each(Visit visit) const {
    const auto count = static_cast<int>(OfA ? across1 - across0 : down1 - down0);
    for (int n = 0; n < count; ++n) {
      const Index tile = tile_at(n);
      for (std::uint32_t i = threadIdx.x; i < doubts.count_of(tile); i += kThreads) {
        const TileDoubt& doubt = doubts.list[tile * TileDoubts::kTile + i];
        if (doubt.row == kSettled) continue;
        if (((doubt.added & (OfA ? kLowsOfB : kLowsOfA)) != 0) != rests) continue;
        const std::uint32_t number = static_cast<std::uint32_t>(n) * TileDoubts::kTile + i;
        visit(OfA ? doubt.row : doubt.column,
              number | static_cast<std::uint32_t>(OfA ? doubt.column : doubt.row) << kNumberBits);
      }
    }
  }
  __device__ void sort(Sorted& sorted) const {
    if (threadIdx.x < kSide) sorted.next[threadIdx.x] = 0;
    __syncthreads();
    each([&](int line, std::uint32_t) { atomicAdd(sorted.next + line, 1u); });
    __syncthreads();
    if (threadIdx.x == 0) {
      std::uint32_t before = 0;
      int lines = 0;
      for (int i = 0; i < kSide; ++i) {
        const std::uint32_t here = sorted.next[i];
        if (here > 0) sorted.line[lines++] = i;
        sorted.start[i] = sorted.next[i] = before;
        before += here;
      }
      sorted.start[kSide] = before;
      sorted.lines = lines;
    }
    __syncthreads();
    each([&](int line, std::uint32_t entry) {
      sorted.order[atomicAdd(sorted.next + line, 1u)] = entry;
    });
    __syncthreads();
  }
  /// The doubts of K-vector `line` of the row or column.
  __device__ void add(const Sorted& sorted, int line, const std::int8_t* slice) const {
    for (std::uint32_t i = sorted.start[line] + threadIdx.x / 32; i < sorted.start[line + 1];
         i += kWarps) {
      const std::uint32_t number = sorted.order[i] & ((1u << kNumberBits) - 1);
      const auto other = static_cast<int>(sorted.order[i] >> kNumberBits);
      const auto n = static_cast<int>(number / TileDoubts::kTile);
      TileDoubt& doubt = doubts.list[tile_at(n) * TileDoubts::kTile + number % TileDoubts::kTile];
      const int row = OfA ? line : other;
      const Index of_a = window_of<true>(p, group, OfA ? down0 : down0 + n) + row;
      const Index column = (OfA ? across0 + n : across0) * kSide + (OfA ? other : line);
      const Index of_b = group * p.b.rows + column;
      Rest rest{};
      if constexpr (OfA) rest = rest_of(p, a, of_a, b, of_b, doubt.added);
      const double known = doubt.sum;
      const float next = doubt.next;
      const Lows& lows = OfA ? b.lows[of_b] : a.lows[of_a];
      const float sum = rests ? 256.0f * products_of_rests(lows, slice)
                              : static_cast<float>(products_of_lows(lows, slice));
      if (threadIdx.x % 32 != 0) continue;
      if constexpr (!OfA) {
        doubt.next = sum;
      } else {
        const double listed = static_cast<double>(next) + static_cast<double>(sum);
        const Index at = p.out_at(group, (down0 - Tiles::first(p, group)) * kSide + row, column);
        write_if_decided(p, at, known, 256.0 * listed, rest, doubt);
      }
    }
  }
  /// Brings K-vectors to `bytes` of shared memory, the next beside the one at hand if there is
  /// room; a bit of `phase` for each half flips with each use.
  __device__ void run(Sorted& sorted, std::uint8_t* buffers, Index bytes,
                      std::uint32_t& phase) const {
    sort(sorted);
    const Index first =
        OfA ? window_of<true>(p, group, down0) : window_of<false>(p, group, across0);
    const auto length = static_cast<std::uint32_t>((p.length_of(group) + 127) / 128 * 128);
    const bool ahead = 2 * Index{length} <= bytes;
    const auto buffer = [&](int i) { return buffers + (ahead ? i % 2 * length : 0); };
    const auto fetch = [&](int i) {
      if (threadIdx.x != 0 || i >= sorted.lines) return;
      barrier_expect(sorted.full + i % 2, length);
      copy_bytes(buffer(i),
                 slice_of(p, OfA ? p.a : p.b, OfA ? a.slices : b.slices, first + sorted.line[i],
                          rests ? 2 : 1),
                 length, sorted.full + i % 2);
    };
    if (ahead) fetch(0);
    for (int i = 0; i < sorted.lines; ++i) {
      fetch(ahead ? i + 1 : i);
      barrier_wait(sorted.full + i % 2, phase >> i % 2 & 1u);
      phase ^= 1u << i % 2;
      add(sorted, sorted.line[i], reinterpret_cast<const std::int8_t*>(buffer(i)));
      __syncthreads();
    }
  }
};

template <bool OfA>
__global__ void __launch_bounds__(kThreads)
    settle_kernel(Problem p, ThreeSlices a, ThreeSlices b, TileDoubts doubts, Index bytes,
                  const std::int32_t* wanted) {
  if (wanted != nullptr && *wanted == 0) return;
  extern __shared__ uint4 buffers[];
  __shared__ Sorted sorted;
  if (threadIdx.x == 0) {
    for (std::uint64_t& full : sorted.full) barrier_init(&full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  std::uint32_t phase = 0;
  const Tiles tiles(p);
  const Index lines = OfA ? tiles.down : tiles.across;
  const Index batches = ((OfA ? tiles.across : tiles.down) + kBatch - 1) / kBatch;
  for (Index work = blockIdx.x; work < lines * batches; work += gridDim.x) {
    const Index line = work / batches;
    const Index from = work % batches * kBatch;
    const Index end = min(from + kBatch, OfA ? tiles.across : tiles.down);
    auto* memory = reinterpret_cast<std::uint8_t*>(buffers);
    for (const bool rests : {false, true}) {
      if (rests && !OfA && !adds_rests_of_a(p)) continue;
      if constexpr (OfA) {
        const Settling<true> all{p,    a,        b,    doubts, Tiles::group_of(p, line),
                                 line, line + 1, from, end,    rests};
        all.run(sorted, memory, bytes, phase);
      } else {
        for (Index down = from; down < end;) {
          const Index group = Tiles::group_of(p, down);
          const Index next = min(end, Tiles::first(p, group + 1));
          const Settling<false> all{p, a, b, doubts, group, down, next, line, line + 1, rests};
          all.run(sorted, memory, bytes, phase);
          down = next;
        }
      }
    }
  }
}

constexpr int kRestThreads = 64;

/// What is left, an output to a warp, in binary64 and in fixed point.
__global__ void __launch_bounds__(kRestThreads, 16)
    settle_the_rest_kernel(Problem p, SlicedSides sides, TileDoubts doubts,
                           const std::int32_t* wanted) {
  if (wanted != nullptr && *wanted == 0) return;
  constexpr Index kParts = TileDoubts::kTile / 32;
  const Tiles tiles(p);
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const Index warps = gridDim.x * Index{kRestThreads / 32};
  for (Index part = blockIdx.x * Index{kRestThreads / 32} + threadIdx.x / 32;
       part < tiles.down * tiles.across * kParts; part += warps) {
    const Index tile = part / kParts;
    const auto first = static_cast<int>(part % kParts) * 32;
    const auto count = static_cast<int>(doubts.count_of(tile));
    if (first >= count) continue;
    const TileDoubt* list = doubts.list + tile * TileDoubts::kTile + first;
    const bool open = first + lane < count && list[lane].row != kSettled;
    const Index down = tile / tiles.across;
    const Index group = Tiles::group_of(p, down);
    const Index row0 = (down - Tiles::first(p, group)) * kSide;
    for (unsigned found = __ballot_sync(~0u, open); found != 0; found &= found - 1) {
      const TileDoubt& doubt = list[__ffs(static_cast<int>(found)) - 1];
      failed_output(p, sides, window_of<true>(p, group, down) + doubt.row,
                    KVectorOfGroup{group, row0 + doubt.row},
                    tile % tiles.across * kSide + doubt.column);
    }
  }
}

}  // namespace

void settle_tile_doubts(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                        const ThreeSlices& b, const TileDoubts& doubts,
                        const std::int32_t* wanted) {
  constexpr int kMost = kMaxTripleChunks * 128;
  const Index bytes = std::min<Index>(2 * round_up(p.depth, 128), kMost);
  const auto blocks = static_cast<unsigned>(backend.multiprocessors() * 64);
  settle_short_lists_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, a, b, doubts, wanted);
  for (auto* kernel : {settle_kernel<false>, settle_kernel<true>}) {
    // All threads share it: not what this product needs.
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMost),
          "cudaFuncSetAttribute");
    kernel<<<blocks, kThreads, static_cast<std::size_t>(bytes), backend.stream()>>>(p, a, b, doubts,
                                                                                    bytes, wanted);
  }
  settle_the_rest_kernel<<<blocks, kRestThreads, 0, backend.stream()>>>(
      p, SlicedSides{a.slices.codes, b.slices.codes, a.slices.window, b.slices.window}, doubts,
      wanted);
  check_launch("settle_the_rest_kernel");
}

}  // namespace mxo::cuda
