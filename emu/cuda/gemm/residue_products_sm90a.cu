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

__device__ void fetch_tiles(const Job& job, Pipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  pipeline.keep_pace(job.arrivals);
  int before = -1;
  each_work(job, [&](const Work& work) {
    if (threadIdx.x % 32 != 0) return;
    // Blocks of more products would wait for those that write more often.
    if (before >= 0 && work.moduli != before) pipeline.end_pace();
    before = work.moduli;
    for (int n = 0; n < work.moduli; ++n) {
      pipeline.fetch(a, b, work.chunks, work.place, work.k_vector_a, n, work.k_vector_b, n);
    }
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
        Sums d{};  // no value of before is kept for them
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
}  // namespace residues

void multiply_by_residues(DeviceBackend& backend, const Problem& p, const IntegerKVectors& a,
                          const IntegerKVectors& b, const FailedOutputs& failed,
                          const HardTiles& hard) {
  using namespace residues;
  const Bands bands_a(backend, p, p.a, a);
  const Bands bands_b(backend, p, p.b, b);
  const int blocks = std::max(backend.multiprocessors() / kBlocks, 1) * kBlocks;
  Scratch<std::uint32_t> kept(backend, blocks * kModuli * kTileWords);
  check(cudaFuncSetAttribute(residue_products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kPipelineBytes<kColumns>),
        "cudaFuncSetAttribute");
  const Index pairs = ceil_div(bands_a.lines, bands_a.made.band.count) *
                      ceil_div(bands_b.lines, bands_b.made.band.count);
  Scratch<std::uint32_t> arrivals(backend, pairs);
  backend.fill_zero(reinterpret_cast<std::byte*>(arrivals.data()),
                    static_cast<std::size_t>(pairs) * sizeof(std::uint32_t));
  std::uint32_t* of_pair = arrivals.data();
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
      const Job job{p,           a.window,  b.window, of_a.band, of_b.band,
                    kept.data(), of_pair++, failed,   hard};
      residue_products_kernel<<<static_cast<unsigned>(blocks), kPipelineThreads,
                                kPipelineBytes<kColumns>, backend.stream()>>>(
          map(of_a, kTileRows), map(of_b, kColumns / kBlocks), job);
      check_launch("residue_products_kernel");
    }
  }
}

}  // namespace mxo::cuda
