// The pipeline of a product on one multiprocessor: one thread fetches tiles of both factors, two
// warpgroups multiply them.  Two blocks of a cluster may fetch half of a tile of b each, for both.
#pragma once

#include "emu/cuda/gemm/async_copy.cuh"
#include "emu/cuda/gemm/pace.cuh"
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

template <int Columns, int Blocks = 1>
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
        barrier_init(empty_ + s, 8 * Blocks);  // warps that multiply
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    sync();
  }
  /// Called by all threads of the block at the end: none leaves a block that still fetches for it.
  __device__ void leave() const {
    if constexpr (Blocks == 2) sync();
  }

  /// Fetches `chunks` chunks of 128 K-vectors of a and `Columns` of b; one thread.  Of two blocks
  /// both fetch the same of b, in boxes of Columns / 2 K-vectors.
  __device__ void fetch(const CUtensorMap* a, const CUtensorMap* b, int chunks, int k,
                        int k_vector_a, int depth_a, int k_vector_b, int depth_b) {
    for (int i = 0; i < chunks; ++i) {
      pace_.step();
      barrier_wait(empty_ + ring_.stage, ring_.phase ^ 1u);
      std::uint8_t* stage = tiles_ + ring_.stage * kStageBytes<Columns>;
      std::uint64_t* full = full_ + ring_.stage;
      barrier_expect(full, kStageBytes<Columns>);
      copy_box(stage, a, full, k, k_vector_a, depth_a);
      std::uint8_t* to_b = stage + kTileRows * kChunkBytes;
      if constexpr (Blocks == 1) {
        copy_box(to_b, b, full, k, k_vector_b, depth_b);
      } else {
        const int half = static_cast<int>(cluster_rank()) * Columns / 2;
        copy_box_to_both(to_b + half * kChunkBytes, b, full, k, k_vector_b + half, depth_b);
      }
      k += box_step_;
      ring_.advance();
    }
  }
  /// See Pace.
  __device__ void keep_pace(std::uint32_t* arrivals) { pace_.keep(arrivals); }
  __device__ void end_pace() { pace_.end(); }
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
  static __device__ void sync() {
    if constexpr (Blocks == 1) {
      __syncthreads();
    } else {
      cluster_sync();
    }
  }
  /// To all blocks that fetch into it.
  __device__ void release(int stage) {
    const std::uint32_t lane = threadIdx.x % 32;
    if constexpr (Blocks == 1) {
      if (lane == 0) barrier_arrive(empty_ + stage);
    } else {
      if (lane < Blocks) barrier_arrive_at(empty_ + stage, lane);
    }
  }

  std::uint8_t* tiles_;
  std::uint64_t* full_;
  std::uint64_t* empty_;
  Ring<kStages<Columns>> ring_;
  int box_step_ = kChunkBytes;
  Pace pace_;
};

/// A tile of the output.
struct Tile {
  Index group;
  Index row;     ///< of the group, of its first K-vector of a
  Index column;  ///< of its first K-vector of b
};

/// Tiles that lie one below the other, of the groups before `group`, `Down` of them taken as one:
/// no fewer than groups need each for itself.
template <int Down>
__device__ Index tiles_before(const Problem& p, Index group) {
  return (p.span[group].row_tile + group * (Down - 1)) / Down;
}

/// Tile number `index` of the problem, or the first of `Down` tiles one below the other; neighbours
/// share K-vectors of b or of a.  Bands of eight tiles along b keep both factors of the tiles that
/// run at once small.  Some of several lie beyond their group's rows.
template <int Columns, int Down = 1>
__device__ Tile tile_of(const Problem& p, Index index) {
  constexpr int kRows = kTileRows * Down;
  const Index across = (p.b.rows + Columns - 1) / Columns;
  Index group = 0;
  Index down = (p.a.rows + kRows - 1) / kRows;
  if (p.contracts_rows()) {
    group = index / (across * down);
    index -= group * across * down;
  } else {
    group = last_group_before(p, index / across, [&](Index g) { return tiles_before<Down>(p, g); });
    down = (p.span[group].rows + kRows - 1) / kRows;
    index -= tiles_before<Down>(p, group) * across;
    if (Down > 1 && index >= down * across) return {group, down * kRows, 0};
  }
  constexpr Index kBand = 8;
  const Index band = index / (down * kBand);
  const Index width = across - band * kBand < kBand ? across - band * kBand : kBand;
  const Index rest = index - band * down * kBand;
  return {group, rest / width * kRows, (band * kBand + rest % width) * Columns};
}

template <int Columns, int Down = 1>
__device__ Index tiles_of(const Problem& p) {
  constexpr int kRows = kTileRows * Down;
  const Index across = (p.b.rows + Columns - 1) / Columns;
  const Index down = p.contracts_rows() ? p.groups * ((p.a.rows + kRows - 1) / kRows)
                                        : tiles_before<Down>(p, p.groups);
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
