// The pipeline of a product of two slices: a stage has both slices of both factors, whose four
// products are added up in three sets of registers.
#pragma once

#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {

inline constexpr int kPairColumns = 128;  ///< K-vectors of b in a tile
inline constexpr int kPairWords = kPairColumns / 2;
/// A stage: the low and the high slice of 128 K-vectors of a, then of b.
inline constexpr int kPairStages = 3;
inline constexpr int kBoxBytes = 128 * kChunkBytes;
inline constexpr int kPairStageBytes = 4 * kBoxBytes;
inline constexpr int kPairBytes = kPairStages * kPairStageBytes + 1024 + 64;

/// Sums of the products of slices, by the weight 256^w.
struct PairSums {
  std::uint32_t w0[kPairWords];
  std::uint32_t w1[kPairWords];
  std::uint32_t w2[kPairWords];
};

class PairPipeline {
 public:
  /// Called by all threads of the block.
  __device__ explicit PairPipeline(std::uint8_t* shared) {
    tiles_ = shared + (1024 - shared_address(shared) % 1024) % 1024;
    full_ = reinterpret_cast<std::uint64_t*>(tiles_ + kPairStages * kPairStageBytes);
    empty_ = full_ + kPairStages;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kPairStages; ++s) {
        barrier_init(full_ + s, 1);
        barrier_init(empty_ + s, 8);  // warps that multiply
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }

  /// Fetches `chunks` chunks of both slices of 128 K-vectors of a and of b; one thread.
  __device__ void fetch(const CUtensorMap* a, const CUtensorMap* b, int chunks, int k,
                        int k_vector_a, int k_vector_b) {
    for (int i = 0; i < chunks; ++i) {
      pace_.step();
      barrier_wait(empty_ + ring_.stage, ring_.phase ^ 1u);
      std::uint8_t* stage = tiles_ + ring_.stage * kPairStageBytes;
      std::uint64_t* full = full_ + ring_.stage;
      barrier_expect(full, kPairStageBytes);
      for (int slice = 0; slice < 2; ++slice) {
        copy_box(stage + slice * kBoxBytes, a, full, k, k_vector_a, slice);
        copy_box(stage + (2 + slice) * kBoxBytes, b, full, k, k_vector_b, slice);
      }
      k += kChunkBytes;
      ring_.advance();
    }
  }
  /// Fetches `bytes` of something else, a stage at most; one thread.
  __device__ void fetch(const void* from, std::uint32_t bytes) {
    barrier_wait(empty_ + ring_.stage, ring_.phase ^ 1u);
    barrier_expect(full_ + ring_.stage, bytes);
    copy_bytes(tiles_ + ring_.stage * kPairStageBytes, from, bytes, full_ + ring_.stage);
    ring_.advance();
  }
  __device__ void keep_pace(std::uint32_t* arrivals) { pace_.keep(arrivals); }

  /// The sums of the next `chunks` chunks; one warpgroup, `group` 0 or 1.  Calls meanwhile() while
  /// two of them are multiplied.
  template <typename Work>
  __device__ void multiply(PairSums& sums, int chunks, int group, Work meanwhile) {
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) sums.w0[i] = sums.w1[i] = sums.w2[i] = 0;
    int previous = -1;
    for (int i = 0; i < chunks; ++i) {
      const int stage = start(sums, group);
      if (i == min(1, chunks - 1)) meanwhile();
      wgmma_wait<1>();
      if (previous >= 0) release(previous);
      previous = stage;
    }
    if (chunks == 0) meanwhile();
    wgmma_wait<0>();
    if (previous >= 0) release(previous);
  }

  /// That stage, as it comes, and its return.
  __device__ const void* wait_for_stage() const {
    barrier_wait(full_ + ring_.stage, ring_.phase);
    return tiles_ + ring_.stage * kPairStageBytes;
  }
  __device__ void return_stage() {
    __syncwarp();
    release(ring_.stage);
    ring_.advance();
  }

 private:
  __device__ int start(PairSums& sums, int group) {
    barrier_wait(full_ + ring_.stage, ring_.phase);
    const std::uint32_t tiles = shared_address(tiles_ + ring_.stage * kPairStageBytes);
    const std::uint64_t a0 = tile_descriptor(tiles + group * 64 * kChunkBytes);
    const std::uint64_t a1 = tile_descriptor(tiles + kBoxBytes + group * 64 * kChunkBytes);
    const std::uint64_t b0 = tile_descriptor(tiles + 2 * kBoxBytes);
    const std::uint64_t b1 = tile_descriptor(tiles + 3 * kBoxBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {  // 32 bytes are two units of a descriptor
      wgmma<Unit::s8>(sums.w2, a1 + 2 * step, b1 + 2 * step, 1);
      wgmma<Unit::s8>(sums.w1, a1 + 2 * step, b0 + 2 * step, 1);
      wgmma<Unit::s8>(sums.w0, a0 + 2 * step, b0 + 2 * step, 1);
      wgmma<Unit::s8>(sums.w1, a0 + 2 * step, b1 + 2 * step, 1);
    }
    wgmma_commit();
    const int stage = ring_.stage;
    ring_.advance();
    return stage;
  }
  __device__ void release(int stage) {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty_ + stage);
  }

  std::uint8_t* tiles_;
  std::uint64_t* full_;
  std::uint64_t* empty_;
  Ring<kPairStages> ring_;
  Pace pace_;
};

}  // namespace mxo::cuda
