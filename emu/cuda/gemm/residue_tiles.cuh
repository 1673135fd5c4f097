// What the thread blocks of the product by residues do: tiles of 128 x 256 outputs, two of them,
// one below the other, to two blocks of a cluster.
#pragma once

#include "emu/cuda/gemm/residues.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda::residues {

inline constexpr int kColumns = 256;
/// Words of residues of a tile by one modulus, four outputs to each.
inline constexpr Index kTileWords = Index{kTileRows} * kColumns / 4;
/// Such tiles that a block keeps: by every modulus, and of bounds.
inline constexpr int kKept = kModuli + 1;
/// Blocks of a cluster.
inline constexpr int kBlocks = 2;

struct Job {
  Problem p;
  const KVectorWindow* window_a;
  const KVectorWindow* window_b;
  Band band_a;
  Band band_b;
  std::uint32_t* residues;  ///< kKept times kTileWords for each block
  std::uint32_t* arrivals;  ///< of the blocks' pace
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
  int norms;  ///< chunks of blocks' norms, if they bound what residuals add
  int place;  ///< of its first chunk along k
  int k_vector_a;
  int k_vector_b;
};

/// Of K-vectors together.
struct Reach {
  int greatest = 0;
  bool residuals = false;  ///< some have any
};
/// Of `count` K-vectors, the warp together.
__device__ inline Reach reach_of(const KVectorWindow* window, int count) {
  Reach reach;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
    const KVectorWindow& of = window[i];
    if (of.slices < kBeyond) reach.greatest = max(reach.greatest, of.slices);
    reach.residuals = reach.residuals || of.residual > 0;
  }
  reach.greatest = __reduce_max_sync(~0u, reach.greatest);
  reach.residuals = __any_sync(~0u, reach.residuals);
  return reach;
}

/// Rows of the tile that are wanted.
__device__ inline int rows_wanted(const Job& job, const Tile& t) {
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
    const Reach a = reach_of(job.window_a + work.a, static_cast<int>(rows));
    const Reach b = reach_of(job.window_b + work.b, work.columns);
    work.moduli = a.greatest == 0 || b.greatest == 0 ? 0 : moduli_for(a.greatest + b.greatest);
    // Four bytes for a quarter of a chunk.
    if (has_norms(p) && (a.residuals || b.residuals)) work.norms = (work.chunks + 7) / 8;
    t.row += rank * kTileRows;
    work.a += rank * kTileRows;
    work.k_vector_a = static_cast<int>(line_a - job.band_a.first) + rank * kTileRows;
    work.k_vector_b = static_cast<int>(line_b - job.band_b.first);
    visit(work);
  }
}

}  // namespace mxo::cuda::residues
