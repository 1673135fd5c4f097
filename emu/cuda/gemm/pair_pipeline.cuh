// The pipeline of a product of two slices: a stage has both slices of both factors, whose four
// products are added up in three sets of registers.
#pragma once

#include "emu/cuda/gemm/pace.cuh"
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

  /// The products of the next `chunks` chunks, each by itself: of high slices times 256 and the
  /// mixed ones in one set of registers, of low slices in another, below 2^29 and 2^21.  Calls
  /// take.next() before a chunk, take.prepare() while it is multiplied, then take(upper, lower).
  template <typename Take>
  __device__ void multiply_each(int chunks, int group, Take& take) {
    std::uint32_t upper[kPairWords];
    std::uint32_t lower[kPairWords];
    if (group == 1 && chunks > 0) wait_for_other();
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      take.next();
      barrier_wait(full_ + ring_.stage, ring_.phase);
      const Descriptors at = descriptors(group);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(upper, at.a1 + 2 * step, at.b1 + 2 * step, step > 0 ? 1 : 0);
      }
      wgmma_commit();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(lower, at.a0 + 2 * step, at.b0 + 2 * step, step > 0 ? 1 : 0);
      }
      wgmma_commit();
      wgmma_wait<1>();
#pragma unroll
      for (int n = 0; n < kPairWords; ++n) upper[n] *= 256;
      if (group == 0 && i == 0) let_other_start();
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(upper, at.a1 + 2 * step, at.b0 + 2 * step, 1);
        wgmma<Unit::s8>(upper, at.a0 + 2 * step, at.b1 + 2 * step, 1);
      }
      wgmma_commit();
      take.prepare();
      wgmma_wait<0>();
      release(ring_.stage);
      ring_.advance();
      take(upper, lower);
    }
  }
  /// The same in one set of registers, for sums of two words: take.upper(part), then
  /// take.lower(part).
  template <typename Take>
  __device__ void multiply_apart(int chunks, int group, Take& take) {
    std::uint32_t part[kPairWords];
    if (group == 1 && chunks > 0) wait_for_other();
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      take.next();
      barrier_wait(full_ + ring_.stage, ring_.phase);
      const Descriptors at = descriptors(group);
      // A loop: what is taken is out of its registers before they are multiplied into again.
#pragma unroll 1
      for (int low = 0; low < 2; ++low) {
        if (low == 0) {
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < 4; ++step) {
            wgmma<Unit::s8>(part, at.a1 + 2 * step, at.b1 + 2 * step, step > 0 ? 1 : 0);
          }
          wgmma_commit();
          wgmma_wait<0>();
        }
#pragma unroll
        for (int n = 0; n < kPairWords; ++n) part[n] *= low == 0 ? 256 : 0;
        wgmma_fence();
        if (low == 0) {
#pragma unroll
          for (int step = 0; step < 4; ++step) {
            wgmma<Unit::s8>(part, at.a1 + 2 * step, at.b0 + 2 * step, 1);
            wgmma<Unit::s8>(part, at.a0 + 2 * step, at.b1 + 2 * step, 1);
          }
        } else {
#pragma unroll
          for (int step = 0; step < 4; ++step) {
            wgmma<Unit::s8>(part, at.a0 + 2 * step, at.b0 + 2 * step, 1);
          }
        }
        wgmma_commit();
        wgmma_wait<0>();
        if (low == 0) {
          if (group == 0 && i == 0) let_other_start();
          take.upper(part);
        } else {
          release(ring_.stage);
          take.lower(part);
        }
      }
      ring_.advance();
    }
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
  /// Warpgroup 1 starts half a chunk later, so that one multiplies while the other takes.
  __device__ static void wait_for_other() { asm volatile("bar.sync 2, 256;" ::: "memory"); }
  __device__ static void let_other_start() { asm volatile("bar.arrive 2, 256;" ::: "memory"); }

  /// Of the slices in a stage; 32 bytes are two units.
  struct Descriptors {
    std::uint64_t a0, a1, b0, b1;
  };
  __device__ Descriptors descriptors(int group) const {
    const std::uint32_t tiles = shared_address(tiles_ + ring_.stage * kPairStageBytes);
    return {tile_descriptor(tiles + group * 64 * kChunkBytes),
            tile_descriptor(tiles + kBoxBytes + group * 64 * kChunkBytes),
            tile_descriptor(tiles + 2 * kBoxBytes), tile_descriptor(tiles + 3 * kBoxBytes)};
  }
  __device__ int start(PairSums& sums, int group) {
    barrier_wait(full_ + ring_.stage, ring_.phase);
    const Descriptors at = descriptors(group);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma<Unit::s8>(sums.w2, at.a1 + 2 * step, at.b1 + 2 * step, 1);
      wgmma<Unit::s8>(sums.w1, at.a1 + 2 * step, at.b0 + 2 * step, 1);
      wgmma<Unit::s8>(sums.w0, at.a0 + 2 * step, at.b0 + 2 * step, 1);
      wgmma<Unit::s8>(sums.w1, at.a0 + 2 * step, at.b1 + 2 * step, 1);
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
