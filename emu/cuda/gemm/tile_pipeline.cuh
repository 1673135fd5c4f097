// The pipeline of a product on one multiprocessor: one thread fetches tiles of both factors, two
// warpgroups multiply them.
#pragma once

#include "emu/cuda/gemm/async_copy.cuh"
#include "emu/cuda/gemm/problem.cuh"
#include "emu/cuda/gemm/wgmma.cuh"

namespace mxo::cuda {

inline constexpr int kTileRows = 128;    ///< K-vectors of a in a tile, 64 to a warpgroup
inline constexpr int kChunkBytes = 128;  ///< of k in a stage
inline constexpr int kPipelineThreads = 384;

/// Stages that shared memory holds.
template <int Columns>
inline constexpr int kStages = Columns == 256 ? 4 : 6;
template <int Columns>
inline constexpr int kStageBytes = (kTileRows + Columns) * kChunkBytes;
/// Stages, their barriers, and room to start at a multiple of 1024 bytes, as the swizzle needs.
template <int Columns>
inline constexpr int kPipelineBytes = kStages<Columns>* kStageBytes<Columns> + 1024 + 256;

/// Facts of the K-vectors of a tile in shared memory, first those of a, and of the tile after it: a
/// warpgroup that is ahead does not overwrite what the other still reads.
template <typename Fact, int Columns>
struct KVectorFacts {
  static constexpr int kKVectors = kTileRows + Columns;
  Fact fact[2][kKVectors];
};

/// Waits for all threads that multiply.
__device__ inline void wait_for_multipliers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

template <int Columns>
class TilePipeline {
 public:
  static constexpr int kWords = Columns / 2;  ///< accumulators of a thread
  using Words = std::uint32_t[kWords];

  /// Called by all threads of the block.
  __device__ explicit TilePipeline(std::uint8_t* shared) {
    tiles_ = shared + (1024 - shared_address(shared) % 1024) % 1024;
    full_ = reinterpret_cast<std::uint64_t*>(tiles_ + kStages<Columns> * kStageBytes<Columns>);
    empty_ = full_ + kStages<Columns>;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages<Columns>; ++s) {
        barrier_init(full_ + s, 1);
        barrier_init(empty_ + s, 8);  // warps that multiply
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }

  /// Fetches `chunks` chunks of 128 K-vectors of a and `Columns` of b; one thread.
  __device__ void fetch(const CUtensorMap* a, const CUtensorMap* b, int chunks, int k,
                        int k_vector_a, int depth_a, int k_vector_b, int depth_b) {
    for (int i = 0; i < chunks; ++i) {
      barrier_wait(empty_ + ring_.stage, ring_.phase ^ 1u);
      std::uint8_t* stage = tiles_ + ring_.stage * kStageBytes<Columns>;
      std::uint64_t* full = full_ + ring_.stage;
      barrier_expect(full, kStageBytes<Columns>);
      copy_box(stage, a, full, k, k_vector_a, depth_a);
      copy_box(stage + kTileRows * kChunkBytes, b, full, k, k_vector_b, depth_b);
      k += box_step_;
      ring_.advance();
    }
  }
  /// Elements of the tensor maps in a chunk, if not bytes.
  __device__ void step_by(int elements) { box_step_ = elements; }

  /// d = the products of the next `chunks` chunks, in ascending k from a zero accumulator; one
  /// warpgroup, `group` 0 or 1.
  template <Unit U>
  __device__ void multiply(Words& d, int chunks, int group) {
    if (chunks == 0) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) d[i] = 0;
      return;
    }
    int previous = 0;
    for (int i = 0; i < chunks; ++i) {
      const int stage = start<U>(d, group, i > 0);
      if (i > 0) finish<1>(previous);
      previous = stage;
    }
    finish<0>(previous);
  }

  /// d = the products of the next chunk with one half of the columns; the second half gives the
  /// chunk back.
  template <Unit U>
  __device__ void multiply_half(std::uint32_t (&d)[kWords / 2], int group, int half) {
    if (half == 0) barrier_wait(full_ + ring_.stage, ring_.phase);
    const std::uint32_t tiles = shared_address(tiles_ + ring_.stage * kStageBytes<Columns>);
    const std::uint64_t a = tile_descriptor(tiles + group * 64 * kChunkBytes);
    const std::uint64_t b = tile_descriptor(tiles + (kTileRows + half * Columns / 2) * kChunkBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) wgmma<U>(d, a + 2 * step, b + 2 * step, step > 0 ? 1 : 0);
    wgmma_commit();
    wgmma_wait<0>();
    if (half == 0) return;
    release(ring_.stage);
    ring_.advance();
  }

  /// d = (d +) the products of the next chunk, under way when this returns its stage.
  template <Unit U>
  __device__ int start(Words& d, int group, bool accumulate) {
    barrier_wait(full_ + ring_.stage, ring_.phase);
    const std::uint32_t tiles = shared_address(tiles_ + ring_.stage * kStageBytes<Columns>);
    const std::uint64_t a = tile_descriptor(tiles + group * 64 * kChunkBytes);
    const std::uint64_t b = tile_descriptor(tiles + kTileRows * kChunkBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {  // 32 bytes are two units of a descriptor
      wgmma<U>(d, a + 2 * step, b + 2 * step, accumulate || step > 0 ? 1 : 0);
    }
    wgmma_commit();
    const int stage = ring_.stage;
    ring_.advance();
    return stage;
  }
  /// Waits until all but the latest `Pending` chunks are done, and gives `stage` back.
  template <int Pending>
  __device__ void finish(int stage) {
    wgmma_wait<Pending>();
    release(stage);
  }

 private:
  __device__ void release(int stage) {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty_ + stage);
  }

  std::uint8_t* tiles_;
  std::uint64_t* full_;
  std::uint64_t* empty_;
  Ring<kStages<Columns>> ring_;
  int box_step_ = kChunkBytes;
};

/// A tile of the output.
struct Tile {
  Index group;
  Index row;     ///< of the group, of its first K-vector of a
  Index column;  ///< of its first K-vector of b
};

/// Tile number `index` of the problem; neighbours share K-vectors of b or of a.  Bands of eight
/// tiles along b keep both factors of the tiles that run at once small.
template <int Columns>
__device__ Tile tile_of(const Problem& p, Index index) {
  const Index across = (p.b.rows + Columns - 1) / Columns;
  Index group = 0;
  Index down = (p.a.rows + kTileRows - 1) / kTileRows;
  if (p.contracts_rows()) {
    group = index / (across * down);
    index -= group * across * down;
  } else {
    group = group_at(p, index / across, &GroupSpan::row_tile);
    down = (p.span[group].rows + kTileRows - 1) / kTileRows;
    index -= p.span[group].row_tile * across;
  }
  constexpr Index kBand = 8;
  const Index band = index / (down * kBand);
  const Index width = across - band * kBand < kBand ? across - band * kBand : kBand;
  const Index rest = index - band * down * kBand;
  return {group, rest / width * kTileRows, (band * kBand + rest % width) * Columns};
}

template <int Columns>
__device__ Index tiles_of(const Problem& p) {
  const Index across = (p.b.rows + Columns - 1) / Columns;
  const Index down = p.contracts_rows() ? p.groups * ((p.a.rows + kTileRows - 1) / kTileRows)
                                        : Index{p.span[p.groups].row_tile};
  return across * down;
}

/// Where word `i` of a thread's accumulators lies in its warpgroup's 64 rows.
__device__ inline int row_of_word(int i) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
__device__ inline int column_of_word(int i) {
  return i / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

}  // namespace mxo::cuda
