// The exact product: slices multiplied as int8, their sums recombined in binary64.
//
// With a = sum a_i 256^i and b = sum b_j 256^j (slices of K-vectors), a.b is the sum over w of
// 256^w times the sum of a_i.b_j over i + j = w: a pass for each w, whose products share
// accumulators.
#include <type_traits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/pass_sums.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {
namespace {

constexpr int kColumns = 256;
constexpr int kWords = kColumns / 2;
/// Chunks whose products fit int32, all slices being -128: 2^14 each, 128 to a chunk.
constexpr int kMaxChunks = 1023;

static_assert(kTileOutputs == kTileRows * kColumns);

using Pipeline = TilePipeline<kColumns>;

struct Job {
  Problem p;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
  void* sums;               ///< of every pass, kTileOutputs for each block
  Index block_sums;         ///< sums of a block
  std::uint32_t* failed;    ///< a bit for each output
  Index failed_words;       ///< of a K-vector of a
  std::uint32_t* arrivals;  ///< of the blocks' pace
  HardTiles hard;
};

/// What a block does for one tile.
struct Work {
  Tile tile;
  Index a;  ///< window of its first K-vector of a
  Index b;
  int rows;
  int columns;
  int slices_a;
  int slices_b;
  int passes;
  int chunks;
  int place;  ///< of its first chunk along k
  int k_vector_a;
  int k_vector_b;
};

/// The most slices of `count` K-vectors, the warp together.
__device__ int max_slices(const KVectorWindow* window, int count) {
  int slices = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
    const int d = window[i].slices;
    if (d < kBeyond) slices = max(slices, d);
  }
  return __reduce_max_sync(~0u, slices);
}

/// True if tile `index` is another kernel's.
__device__ bool is_done(const Job& job, Index index) {
  if (job.hard.tile == nullptr) return false;
  const Tile t = tile_of<kColumns>(job.p, index);
  return job.hard.tile[HardTiles::place(job.p, t.group, t.row, t.column)] == 0;
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
  work.slices_a = max_slices(job.window_a + work.a, work.rows);
  work.slices_b = max_slices(job.window_b + work.b, work.columns);
  const bool none = work.slices_a == 0 || work.slices_b == 0;
  work.passes = none ? 0 : work.slices_a + work.slices_b - 1;
  return work;
}

/// The products of a pass: slice i of a with slice w - i of b, `count` of them from i = first on.
struct Pass {
  int first;
  int count;
  int max_chunks;  ///< of each that int32 holds together
  __device__ Pass(const Work& work, int w)
      : first(max(0, w - work.slices_b + 1)),
        count(min(w, work.slices_a - 1) - first + 1),
        max_chunks(kMaxChunks / count) {}
};

__device__ void fetch_tiles(const Job& job, Pipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const Index tiles = tiles_of<kColumns>(job.p);
  pipeline.keep_pace(job.arrivals);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    if (is_done(job, index)) continue;
    const Work work = work_of(job, index);
    if (threadIdx.x % 32 != 0) continue;
    for (int w = 0; w < work.passes; ++w) {
      const Pass pass(work, w);
      for (int done = 0; done < work.chunks; done += pass.max_chunks) {
        const int chunks = min(work.chunks - done, pass.max_chunks);
        for (int i = pass.first; i < pass.first + pass.count; ++i) {
          pipeline.fetch(a, b, chunks, work.place + done * kChunkBytes, work.k_vector_a, i,
                         work.k_vector_b, w - i);
        }
      }
    }
  }
}

/// True if some pass of the tile takes more than one accumulation: its sums are of 64 bits.
__device__ bool long_sums(const Work& work) {
  return work.chunks > kMaxChunks / max(min(work.slices_a, work.slices_b), 1);
}

/// Keeps this thread's words as sums of a pass.
__device__ void keep(const std::uint32_t (&d)[kWords], std::int32_t* sums) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) __stcg(sums + i * 256, static_cast<std::int32_t>(d[i]));
}
/// The same, added to what `sums` hold unless it is the first time.
__device__ void add(const std::uint32_t (&d)[kWords], bool first, std::int64_t* sums) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const std::int64_t value = static_cast<std::int32_t>(d[i]);
    if (first) {
      __stcg(reinterpret_cast<long long*>(sums + i * 256), value);
    } else {
      asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(sums + i * 256), "l"(value)
                   : "memory");
    }
  }
}

/// What the outputs need of a K-vector: its window, and its row-wise scale.
struct Fact {
  KVectorWindow window;
  float scale;
};
using Facts = KVectorFacts<Fact, kColumns>;

/// Brings the facts of a tile's K-vectors to shared memory; all threads that multiply.
__device__ void read_facts(const Job& job, const Work& work, Fact* facts) {
  const Problem& p = job.p;
  const bool scaled = p.form == ScaleForm::rowwise && work.chunks > 0;
  for (int i = static_cast<int>(threadIdx.x); i < Facts::kKVectors; i += 256) {
    const bool of_a = i < kTileRows;
    const int k_vector = of_a ? i : i - kTileRows;
    if (k_vector >= (of_a ? work.rows : work.columns)) continue;
    const Factor& f = of_a ? p.a : p.b;
    const Tile& t = work.tile;
    Fact fact{of_a ? job.window_a[work.a + k_vector] : job.window_b[work.b + k_vector], 1.0f};
    if (scaled) {
      const Index at = p.scale_at(f, t.group, (of_a ? t.row : t.column) + k_vector, 0);
      fact.scale = static_cast<const float*>(f.scales.data)[at];
    }
    facts[i] = fact;
  }
  wait_for_multipliers();
}

/// Writes outputs (row, column) and its right neighbour, `stored` of them in integers.
__device__ void store(const Problem& p, Index at, const std::uint32_t (&bits)[2],
                      const bool (&stored)[2]) {
  if (p.out.dtype == Dtype::f32) {
    auto* out = static_cast<std::uint32_t*>(p.out.data) + at;
    if (stored[0]) out[0] = bits[0];
    if (stored[1]) out[p.out_column_step] = bits[1];
    return;
  }
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

/// Rounds output (a, b) with the sums at `at`.
template <typename Sum>
__device__ RoundingTest round_sum(const Recombined& recombined, const Sum*, int, const Fact& a,
                                  const Fact& b, int mantissa) {
  const double off = recombined.lost + static_cast<double>(residual_bound(a.window, b.window));
  return test_rounding(recombined.sum, off,
                       static_cast<double>(a.scale) * static_cast<double>(b.scale),
                       a.window.quantum + b.window.quantum, mantissa);
}
/// bf16: the estimate mostly decides.  It is off by less than 16 roundings of the magnitudes, which
/// are 2^-24 each: of the parts together one, of at most nine sums, of the scale, of its product
/// with the sum, and of the bound.
template <typename Sum>
__device__ RoundingTest round_sum(const Estimate& guess, const Sum* at, int passes, const Fact& a,
                                  const Fact& b, int mantissa) {
  const float scale = a.scale * b.scale;
  const float off = guess.magnitude * 0x1p-20f + residual_bound(a.window, b.window);
  const bool normal = fabsf(scale) > 0x1p-30f && fabsf(scale) < 0x1p30f;
  const RoundingTest quick = test_rounding_bf16(guess.sum * scale, off * fabsf(scale) * 1.0001f,
                                                a.window.quantum + b.window.quantum);
  if (quick.passed && normal) return quick;
  return round_sum(recombine(at, passes), at, passes, a, b, mantissa);
}

/// Rounds and writes this thread's outputs, and marks those that failed the rounding test.
template <typename Known, typename Sum>
__device__ void write(const Job& job, const Work& work, int group, const Fact* facts,
                      const Sum* sums) {
  const Problem& p = job.p;
  const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
  const Index corner = p.out_at(work.tile.group, work.tile.row, work.tile.column);
  constexpr int kFlight = 8;  // words: two rows of two times eight columns
  std::uint32_t failed[2] = {};
#pragma unroll 1
  for (int first = 0; first < kWords; first += kFlight) {
    const Sum* at = sums + first * 256;
    Known known[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      if constexpr (std::is_same_v<Known, Estimate>) {
        known[i] = estimate(at + i * 256, work.passes);
      } else {
        known[i] = recombine(at + i * 256, work.passes);
      }
    }
#pragma unroll
    for (int i = 0; i < kFlight; i += 2) {
      const int row = group * 64 + row_of_word(i);  // kFlight is a multiple of 4
      const int column = column_of_word(first + i);
      if (row >= work.rows) continue;
      const Fact& a = facts[row];
      std::uint32_t bits[2] = {};
      bool stored[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const Fact& b = facts[kTileRows + column + side];
        stored[side] = column + side < work.columns;
        if (!stored[side]) continue;
        const RoundingTest rounded =
            round_sum(known[i + side], at + (i + side) * 256, work.passes, a, b, mantissa);
        bits[side] = rounded.bits;
        stored[side] = rounded.passed && a.window.slices < kBeyond && b.window.slices < kBeyond;
        if (!stored[side]) failed[i / 2 % 2] |= 1u << (column + side) % 32;
      }
      store(p, corner + row * p.out_row_step + column * p.out_column_step, bits, stored);
    }
    if (first % (2 * kFlight) == 0) continue;  // 32 columns: a word of marks
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      if (failed[side] == 0) continue;
      const Index k_vector = work.a + group * 64 + row_of_word(2 * side);
      const Index word = work.tile.column / 32 + first / (2 * kFlight);
      atomicOr(job.failed + k_vector * job.failed_words + word, failed[side]);
      failed[side] = 0;
    }
  }
}

/// All of one tile, its sums kept as `Sum`.
template <typename Sum>
__device__ void multiply_tile(const Job& job, const Work& work, Pipeline& pipeline, int group,
                              const Fact* facts) {
  Sum* sums = static_cast<Sum*>(job.sums) + blockIdx.x * job.block_sums + threadIdx.x;
  for (int w = 0; w < work.passes; ++w) {
    const Pass pass(work, w);
    Sum* to = sums + w * kTileOutputs;
    for (int done = 0; done < work.chunks; done += pass.max_chunks) {
      std::uint32_t d[kWords];
      const int chunks = min(work.chunks - done, pass.max_chunks);
      pipeline.multiply<Unit::s8>(d, chunks * pass.count, group);
      if constexpr (sizeof(Sum) == 4) {
        keep(d, to);
      } else {
        add(d, done == 0, to);
      }
    }
  }
  if (job.p.out.dtype == Dtype::f32) {
    write<Recombined>(job, work, group, facts, sums);
  } else {
    write<Estimate>(job, work, group, facts, sums);
  }
}

__device__ void multiply_tiles(const Job& job, Pipeline& pipeline, int group, Facts& facts) {
  const Index tiles = tiles_of<kColumns>(job.p);
  int buffer = 0;
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    if (is_done(job, index)) continue;
    const Work work = work_of(job, index);
    Fact* fact = facts.fact[buffer];
    buffer ^= 1;
    read_facts(job, work, fact);
    if (long_sums(work)) {
      multiply_tile<std::int64_t>(job, work, pipeline, group, fact);
    } else {
      multiply_tile<std::int32_t>(job, work, pipeline, group, fact);
    }
  }
}

__global__ void __launch_bounds__(kPipelineThreads, 1)
    slices_product_kernel(const __grid_constant__ CUtensorMap a,
                          const __grid_constant__ CUtensorMap b, const __grid_constant__ Job job) {
  if (job.hard.any != nullptr && *job.hard.any == 0) return;
  extern __shared__ std::uint8_t shared[];
  __shared__ Facts facts;
  Pipeline pipeline(shared);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    multiply_tiles(job, pipeline, group, facts);
  }
}

}  // namespace

void multiply_slices(DeviceBackend& backend, const Problem& p, const Slices& a, const Slices& b,
                     const FailedOutputs& failed, const HardTiles& hard) {
  const auto map = [](const Slices& slices, int rows) {
    const KVectorMemory& m = slices.memory;
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, slices.depth, m.group_bytes,
                    rows);
  };
  const auto blocks = static_cast<unsigned>(backend.multiprocessors());
  const int slices = std::min(a.depth, b.depth);
  const Index block_sums = Index{a.depth + b.depth - 1} * kTileOutputs;
  const bool may_be_long = p.depth > kMaxChunks / slices * Index{kChunkBytes};
  Scratch<std::uint8_t> sums(backend, blocks * block_sums * (may_be_long ? 8 : 4));
  Scratch<std::uint32_t> arrivals(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(arrivals.data()), sizeof(std::uint32_t));
  const Job job{p,           a.window,     b.window,        sums.data(), block_sums,
                failed.bits, failed.words, arrivals.data(), hard};
  check(cudaFuncSetAttribute(slices_product_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kPipelineBytes<kColumns>),
        "cudaFuncSetAttribute");
  slices_product_kernel<<<blocks, kPipelineThreads, kPipelineBytes<kColumns>, backend.stream()>>>(
      map(a, kTileRows), map(b, kColumns), job);
  check_launch("slices_product_kernel");
}

}  // namespace mxo::cuda
