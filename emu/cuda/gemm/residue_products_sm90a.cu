// The exact product by residues: a product of bytes for each modulus, whose sums say what the sum
// of the integers' products is.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/residue_outputs.cuh"

namespace mxo::cuda {
namespace residues {
namespace {

using Pipeline = TilePipeline<kColumns, kBlocks>;
using Sums = Pipeline::Words;
/// Chunks whose sums stay below 2^30, all residues being -128: 2^14 each, 128 to a chunk.
constexpr int kMaxChunks = 511;
/// Bytes of residues of a band by all moduli, of either factor.
constexpr Index kBandBytes = Index{1} << 32;

/// Of both factors.
struct Maps {
  CUtensorMap a;
  CUtensorMap b;
};

__device__ void fetch_tiles(const Job& job, Pipeline& pipeline, const Maps& residues,
                            const Maps& norms) {
  pipeline.keep_pace(job.arrivals);
  int before = -1;
  each_work(job, [&](const Work& work) {
    if (threadIdx.x % 32 != 0) return;
    // Blocks of more products would wait for those that write more often.
    if (before >= 0 && work.moduli != before) pipeline.end_pace();
    before = work.moduli;
    for (int n = 0; n < work.moduli; ++n) {
      pipeline.fetch(&residues.a, &residues.b, work.chunks, work.place, work.k_vector_a, n,
                     work.k_vector_b, n);
    }
    pipeline.fetch(&norms.a, &norms.b, work.norms, 0, static_cast<int>(work.a), 0,
                   static_cast<int>(work.b), 0);
  });
  if (threadIdx.x % 32 == 0) pipeline.end_pace();
}

/// The residues by one modulus of this thread's sums, added to those in memory unless these are the
/// first.
template <bool kFirst>
__device__ void keep(const Sums& d, Modulus m, std::uint32_t* to) {
  asm("" : "+r"(m.fine));  // here, so that the compiler multiplies words, not numbers of 64 bits
#pragma unroll
  for (int i = 0; i < Pipeline::kWords; i += 4) {
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

/// Bounds as bytes of logarithms, rounded up: how far the upper bits of a binary32 are above those
/// of the number that is returned.
__device__ std::uint32_t keep_bounds(const Sums& d, std::uint32_t* to) {
  // What is no number is raised to infinity.
  const auto upper = [](std::uint32_t bits) { return min(bits >> kBoundShift, 0x7F7u); };
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < Pipeline::kWords; ++i) most = max(most, upper(d[i]));
  const std::uint32_t least = max(most, 254u) - 254;
#pragma unroll
  for (int i = 0; i < Pipeline::kWords; i += 4) {
    std::uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      word |= (max(upper(d[i + k]), least) - least + 1) << 8 * k;
    }
    __stcg(to + i / 4 * 256, word);
  }
  return least;
}

__device__ void multiply_tiles(const Job& job, Pipeline& pipeline, int group, Shared& shared) {
  std::uint32_t* residues = job.residues + blockIdx.x * (kKept * kTileWords) + threadIdx.x;
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
        Sums d{};  // no value of before is kept for them
        pipeline.multiply<Unit::s8>(d, min(work.chunks - done, kMaxChunks), group);
        std::uint32_t* to = residues + n * kTileWords;
        done == 0 ? keep<true>(d, m, to) : keep<false>(d, m, to);
      }
    }
    Bounds bounds{};
    if (work.norms > 0) {
      Sums d{};
      pipeline.multiply<Unit::bf16>(d, work.norms, group);
      bounds.words = residues + work.moduli * kTileWords;
      bounds.least = keep_bounds(d, residues + work.moduli * kTileWords);
    }
    if (work.rows > 0) write(job, work, group, facts, combination, residues, bounds);
  });
}

__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kPipelineThreads, 1)
    residue_products_kernel(const __grid_constant__ Maps of_residues,
                            const __grid_constant__ Maps of_norms,
                            const __grid_constant__ Job job) {
  if (job.hard.any != nullptr && *job.hard.any == 0) return;
  extern __shared__ std::uint8_t stages[];
  __shared__ Shared shared;
  Pipeline pipeline(stages);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job, pipeline, of_residues, of_norms);
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
}  // namespace residues

void multiply_by_residues(DeviceBackend& backend, const Problem& p, const IntegerKVectors& a,
                          const IntegerKVectors& b, const FailedOutputs& failed,
                          const HardTiles& hard) {
  using namespace residues;
  const Bands bands_a(backend, p, p.a, a);
  const Bands bands_b(backend, p, p.b, b);
  const int blocks = std::max(backend.multiprocessors() / kBlocks, 1) * kBlocks;
  Scratch<std::uint32_t> kept(backend, blocks * kKept * kTileWords);
  check(cudaFuncSetAttribute(residue_products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kPipelineBytes<kColumns>),
        "cudaFuncSetAttribute");
  const Index pairs = ceil_div(bands_a.lines, bands_a.made.band.count) *
                      ceil_div(bands_b.lines, bands_b.made.band.count);
  Scratch<std::uint32_t> arrivals(backend, pairs);
  backend.fill_zero(reinterpret_cast<std::byte*>(arrivals.data()),
                    static_cast<std::size_t>(pairs) * sizeof(std::uint32_t));
  std::uint32_t* of_pair = arrivals.data();
  const auto map = [](const KVectorMemory& m, int depth, int rows) {
    return tile_map(m.data, 1, m.length, m.k_vectors, m.k_vector_bytes, depth, m.group_bytes, rows);
  };
  const auto maps = [&](const KVectorMemory& of_a, const KVectorMemory& of_b, int depth) {
    return Maps{map(of_a, depth, kTileRows), map(of_b, depth, kColumns / kBlocks)};
  };
  const Maps norms = has_norms(p) ? maps(a.norms, b.norms, 1) : Maps{};
  for (Index first_a = 0; first_a < bands_a.lines; first_a += bands_a.made.band.count) {
    const Residues of_a = bands_a.from(first_a);
    make_residues(backend, p, p.a, a, b, {}, hard.any, of_a);
    for (Index first_b = 0; first_b < bands_b.lines; first_b += bands_b.made.band.count) {
      const Residues of_b = bands_b.from(first_b);
      make_residues(backend, p, p.b, b, a, of_a.band, hard.any, of_b);
      const Job job{p,           a.window,  b.window, of_a.band, of_b.band,
                    kept.data(), of_pair++, failed,   hard};
      residue_products_kernel<<<static_cast<unsigned>(blocks), kPipelineThreads,
                                kPipelineBytes<kColumns>, backend.stream()>>>(
          maps(of_a.memory, of_b.memory, most_moduli(p)), norms, job);
      check_launch("residue_products_kernel");
    }
  }
}

}  // namespace mxo::cuda
