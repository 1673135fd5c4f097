// The exact product by residues: a product of bytes for each modulus, whose sums say what the sum
// of the integers' products is.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/residues.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {
namespace {

constexpr int kColumns = 256;
constexpr int kWords = kColumns / 2;
/// Chunks whose sums stay below 2^30, all residues being -128: 2^14 each, 128 to a chunk.
constexpr int kMaxChunks = 511;
/// Words of residues of a tile by one modulus, four outputs to each.
constexpr Index kTileWords = Index{kTileRows} * kColumns / 4;
/// Bytes of residues of a band by all moduli, of either factor.
constexpr Index kBandBytes = Index{1} << 32;

/// Blocks of a cluster, each with one of two tiles, one below the other.
constexpr int kBlocks = 2;
using Pipeline = TilePipeline<kColumns, kBlocks>;

struct Job {
  Problem p;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
  Band band_a;
  Band band_b;
  std::uint32_t* residues;  ///< of every modulus, kTileWords for each block
  FailedOutputs failed;
  HardTiles hard;
};

/// What a block does for one tile.
struct Work {
  Tile tile;
  Index a;  ///< window of its first K-vector of a
  Index b;
  int rows;  ///< 0: none is wanted, but of the tile that the other block has
  int columns;
  int moduli;  ///< 0: all products are 0
  int chunks;
  int place;  ///< of its first chunk along k
  int k_vector_a;
  int k_vector_b;
};

/// The greatest reach of `count` K-vectors, the warp together.
__device__ int greatest_reach(const KVectorWindow* window, int count) {
  int reach = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
    const int of = window[i].slices;
    if (of < kBeyond) reach = max(reach, of);
  }
  return __reduce_max_sync(~0u, reach);
}

/// Rows of the tile that are wanted.
__device__ int rows_wanted(const Job& job, const Tile& t) {
  const Problem& p = job.p;
  const Index rows = min(Index{kTileRows}, p.rows_of(t.group) - t.row);
  if (rows <= 0) return 0;
  const bool wanted =
      job.hard.tile == nullptr || job.hard.tile[HardTiles::place(p, t.group, t.row, t.column)] != 0;
  return wanted ? static_cast<int>(rows) : 0;
}

/// Calls visit(work) for every pair of tiles of this cluster that has a hard one and is in the
/// bands.
template <typename Visit>
__device__ void each_work(const Job& job, Visit visit) {
  const Problem& p = job.p;
  const Index pairs = tiles_of<kColumns, kBlocks>(p);
  const auto rank = static_cast<int>(cluster_rank());
  for (Index index = blockIdx.x / kBlocks; index < pairs; index += gridDim.x / kBlocks) {
    Work work{};
    Tile& t = work.tile;
    t = tile_of<kColumns, kBlocks>(p, index);
    const GroupSpan& span = p.span[t.group];
    work.a = p.contracts_rows() ? t.group * p.a.rows + t.row : span.start + t.row;
    work.b = t.group * p.b.rows + t.column;
    const Index line_a = p.contracts_rows() ? t.row : work.a;
    const Index line_b = p.contracts_rows() ? t.column : work.b;
    if (!job.band_a.has(line_a) || !job.band_b.has(line_b)) continue;
    int any = 0;
    for (int i = 0; i < kBlocks; ++i) {
      const int rows = rows_wanted(job, {t.group, t.row + i * kTileRows, t.column});
      if (i == rank) work.rows = rows;
      any |= rows;
    }
    if (any == 0) continue;
    const Index rows = min(Index{kBlocks * kTileRows}, p.rows_of(t.group) - t.row);
    work.columns = static_cast<int>(min(Index{kColumns}, p.b.rows - t.column));
    work.chunks = static_cast<int>((p.length_of(t.group) + 127) / 128);
    work.place = p.contracts_rows() ? span.packed * 128 : 0;
    const int reach_a = greatest_reach(job.window_a + work.a, static_cast<int>(rows));
    const int reach_b = greatest_reach(job.window_b + work.b, work.columns);
    work.moduli = reach_a == 0 || reach_b == 0 ? 0 : moduli_for(reach_a + reach_b);
    t.row += rank * kTileRows;
    work.a += rank * kTileRows;
    work.k_vector_a = static_cast<int>(line_a - job.band_a.first) + rank * kTileRows;
    work.k_vector_b = static_cast<int>(line_b - job.band_b.first);
    visit(work);
  }
}

__device__ void fetch_tiles(const Job& job, Pipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  each_work(job, [&](const Work& work) {
    if (threadIdx.x % 32 != 0) return;
    for (int n = 0; n < work.moduli; ++n) {
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, n, work.k_vector_b, n);
    }
  });
}

/// What the outputs need of a K-vector: its window, and its row-wise scale.
struct alignas(16) Fact {
  KVectorWindow window;
  float scale;
};
/// What the threads that multiply share of a tile, and of the one after it.
struct Shared {
  KVectorFacts<Fact, kColumns> facts;
  Combination combination[2];
};

/// All threads that multiply.  `to` is for `made` moduli before.
__device__ void prepare(const Job& job, const Work& work, Fact* facts, Combination& to, int made) {
  const Problem& p = job.p;
  const bool scaled = p.form == ScaleForm::rowwise && work.chunks > 0;
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows + kColumns; i += 256) {
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
  const auto i = static_cast<int>(threadIdx.x);
  if (work.moduli != made) {
    if (i < work.moduli) to.set(work.moduli, i);
    if (i == kModuli) to.set_all(work.moduli);
  }
  wait_for_multipliers();
}

/// The residues by one modulus of this thread's sums, added to those in memory unless these are the
/// first.
template <bool kFirst>
__device__ void keep(const std::uint32_t (&d)[kWords], const Modulus& m, std::uint32_t* to) {
#pragma unroll
  for (int i = 0; i < kWords; i += 4) {
    std::uint32_t word = 0;
    const std::uint32_t before = kFirst ? 0 : __ldcg(to + i / 4 * 256);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      std::uint32_t residue = residue_of_sum(static_cast<std::int32_t>(d[i + k]), m);
      if (!kFirst) residue = residue_of(residue + (before >> 8 * k & 0xFF), m);
      word |= residue << 8 * k;
    }
    __stcg(to + i / 4 * 256, word);
  }
}

/// Four outputs of this thread: two neighbours, and two that lie eight rows below.
template <int Count>
__device__ void combine(const Combination& of, const std::uint32_t* at, Recombined (&known)[4]) {
  constexpr int kMost = 4 * Count;
  std::uint32_t words[kMost];
#pragma unroll
  for (int n = 0; n < kMost; ++n) words[n] = n < of.count ? __ldcg(at + n * kTileWords) : 0;
  Combined<Count> sums[4];
#pragma unroll
  for (int n = 0; n < kMost; ++n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[k].add(words[n] >> 8 * k & 0xFF, of, n);
    asm volatile("" ::: "memory");  // weights of one modulus at a time: registers are few
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) known[k] = sums[k].number(of);
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

/// Rounds and writes this thread's outputs, and marks those that failed the rounding test.
template <int Count>
__device__ void write(const Job& job, const Work& work, int group, const Fact* facts,
                      const Combination& combination, const std::uint32_t* residues) {
  const Problem& p = job.p;
  const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
  const Index corner = p.out_at(work.tile.group, work.tile.row, work.tile.column);
  const int rows[2] = {group * 64 + row_of_word(0), group * 64 + row_of_word(2)};
  const Fact of_rows[2] = {facts[rows[0]], facts[rows[1]]};
  std::uint32_t failed[2] = {};
#pragma unroll 1
  for (int first = 0; first < kWords; first += 4) {
    Recombined known[4];
    combine<Count>(combination, residues + first / 4 * 256, known);
    const int column = column_of_word(first);
    const Fact of_columns[2] = {facts[kTileRows + column], facts[kTileRows + column + 1]};
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      if (rows[down] >= work.rows) continue;
      const Fact& a = of_rows[down];
      std::uint32_t bits[2] = {};
      bool stored[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const Fact& b = of_columns[side];
        stored[side] = column + side < work.columns;
        if (!stored[side]) continue;
        const Recombined& sum = known[2 * down + side];
        const RoundingTest rounded = test_rounding(
            sum.sum, sum.lost + static_cast<double>(residual_bound(a.window, b.window)),
            static_cast<double>(a.scale) * static_cast<double>(b.scale),
            a.window.quantum + b.window.quantum, mantissa);
        bits[side] = rounded.bits;
        stored[side] = rounded.passed && a.window.slices < kBeyond && b.window.slices < kBeyond;
        if (!stored[side]) failed[down] |= 1u << (column + side) % 32;
      }
      store(p, corner + rows[down] * p.out_row_step + column * p.out_column_step, bits, stored);
    }
    if (first % 16 != 12) continue;  // 32 columns: a word of marks
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      if (failed[down] == 0) continue;
      const Index k_vector = work.a + rows[down];
      const Index word = (work.tile.column + column) / 32;
      atomicOr(job.failed.bits + k_vector * job.failed.words + word, failed[down]);
      failed[down] = 0;
    }
  }
}
__device__ void write(const Job& job, const Work& work, int group, const Fact* facts,
                      const Combination& combination, const std::uint32_t* residues) {
  switch (max(limbs_of(work.moduli), 1)) {
    case 1: return write<1>(job, work, group, facts, combination, residues);
    case 2: return write<2>(job, work, group, facts, combination, residues);
    case 3: return write<3>(job, work, group, facts, combination, residues);
    case 4: return write<4>(job, work, group, facts, combination, residues);
    default: return write<kLimbs>(job, work, group, facts, combination, residues);
  }
}

__device__ void multiply_tiles(const Job& job, Pipeline& pipeline, int group, Shared& shared) {
  std::uint32_t* residues = job.residues + blockIdx.x * (kModuli * kTileWords) + threadIdx.x;
  int buffer = 0;
  int made = -1;  // moduli of this tile's combination
  int made_next = -1;
  each_work(job, [&](const Work& work) {
    Fact* facts = shared.facts.fact[buffer];
    Combination& combination = shared.combination[buffer];
    buffer ^= 1;
    prepare(job, work, facts, combination, made);
    made = made_next;
    made_next = work.moduli;
    for (int n = 0; n < work.moduli; ++n) {
      const Modulus m = modulus(n);
      for (int done = 0; done < work.chunks; done += kMaxChunks) {
        std::uint32_t d[kWords];
        pipeline.multiply<Unit::s8>(d, min(work.chunks - done, kMaxChunks), group);
        std::uint32_t* to = residues + n * kTileWords;
        done == 0 ? keep<true>(d, m, to) : keep<false>(d, m, to);
      }
    }
    if (work.rows > 0) write(job, work, group, facts, combination, residues);
  });
}

__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kPipelineThreads, 1)
    residue_products_kernel(const __grid_constant__ CUtensorMap a,
                            const __grid_constant__ CUtensorMap b,
                            const __grid_constant__ Job job) {
  if (job.hard.any != nullptr && *job.hard.any == 0) return;
  extern __shared__ std::uint8_t stages[];
  __shared__ Shared shared;
  Pipeline pipeline(stages);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    multiply_tiles(job, pipeline, group, shared);
  }
  pipeline.leave();
}

/// Room for the residues of the K-vectors of `f`, of a band at a time.
struct Bands {
  Residues made;
  Index lines;  ///< K-vectors as they lie in memory
  std::optional<Scratch<std::uint8_t>> memory;

  Bands(DeviceBackend& backend, const Problem& p, const Factor& f, const IntegerKVectors& of) {
    lines = f.rows_are_rows || f.k_is_rows ? f.rows : f.rows * p.groups;
    KVectorMemory& m = made.memory;
    m.length = f.k_is_rows ? of.codes.length : round_up(p.depth, 128);
    m.k_vector_bytes = m.length;
    const Index line_bytes = std::max<Index>(m.k_vector_bytes * most_moduli(p), 1);
    const Index most = std::max<Index>(kBandBytes / line_bytes - kBeyondBand, 1);
    made.band.count = ceil_div(lines, ceil_div(lines, most));
    m.group_bytes = std::min(made.band.count + kBeyondBand, lines) * m.k_vector_bytes;
    memory.emplace(backend, m.group_bytes * most_moduli(p));
    made.data = memory->data();
    m.data = made.data;
  }
  /// The band from `first` on.
  Residues from(Index first) const {
    Residues to = made;
    to.band.first = first;
    to.memory.k_vectors = std::min(to.band.count + kBeyondBand, lines - first);
    return to;
  }
};

}  // namespace

void multiply_by_residues(DeviceBackend& backend, const Problem& p, const IntegerKVectors& a,
                          const IntegerKVectors& b, const FailedOutputs& failed,
                          const HardTiles& hard) {
  const Bands bands_a(backend, p, p.a, a);
  const Bands bands_b(backend, p, p.b, b);
  const int blocks = std::max(backend.multiprocessors() / kBlocks, 1) * kBlocks;
  Scratch<std::uint32_t> residues(backend, blocks * kModuli * kTileWords);
  check(cudaFuncSetAttribute(residue_products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kPipelineBytes<kColumns>),
        "cudaFuncSetAttribute");
  const auto map = [&](const Residues& of, int rows) {
    const KVectorMemory& m = of.memory;
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, most_moduli(p),
                    m.group_bytes, rows);
  };
  for (Index first_a = 0; first_a < bands_a.lines; first_a += bands_a.made.band.count) {
    const Residues of_a = bands_a.from(first_a);
    make_residues(backend, p, p.a, a, b, {}, hard.any, of_a);
    for (Index first_b = 0; first_b < bands_b.lines; first_b += bands_b.made.band.count) {
      const Residues of_b = bands_b.from(first_b);
      make_residues(backend, p, p.b, b, a, of_a.band, hard.any, of_b);
      const Job job{p, a.window, b.window, of_a.band, of_b.band, residues.data(), failed, hard};
      residue_products_kernel<<<static_cast<unsigned>(blocks), kPipelineThreads,
                                kPipelineBytes<kColumns>, backend.stream()>>>(
          map(of_a, kTileRows), map(of_b, kColumns / kBlocks), job);
      check_launch("residue_products_kernel");
    }
  }
}

}  // namespace mxo::cuda
