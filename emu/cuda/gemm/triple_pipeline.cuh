// The pipeline of a product of three slices or four: a stage has the upper three of both factors in
// three pairs, whose six products of the greatest weights are added up in three sets of registers;
// before them, where they are asked for, products of lesser weights.
#pragma once

#include "emu/cuda/gemm/pace.cuh"
#include "emu/cuda/gemm/pair_pipeline.cuh"
#include "emu/cuda/gemm/two_slices.cuh"
#include "emu/exact/three_slices_bounds.h"

namespace mxo::cuda {

inline constexpr int kTripleStages = 2;
inline constexpr int kTriplePairs = 3 * kTripleStages;  ///< a slice of a, the same of b
inline constexpr int kSlicePairBytes = 2 * kBoxBytes;
inline constexpr int kTripleBytes = kTriplePairs * kSlicePairBytes + 1024 + 16 * kTriplePairs;

/// Slices whose products of lesser weights are taken in a sweep of their own: numbers of four bits,
/// as they come.
struct LowerSlices {
  int count;
  std::uint32_t number;
};
__device__ inline LowerSlices lower_of_three() { return {2, 0x10}; }
__device__ inline LowerSlices lower_of_four() { return {4, 0x3021}; }

class TriplePipeline {
 public:
  /// Called by all threads of the block.
  __device__ explicit TriplePipeline(std::uint8_t* shared) {
    tiles_ = shared + (1024 - shared_address(shared) % 1024) % 1024;
    full_ = reinterpret_cast<std::uint64_t*>(tiles_ + kTriplePairs * kSlicePairBytes);
    empty_ = full_ + kTriplePairs;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kTriplePairs; ++s) {
        barrier_init(full_ + s, 1);
        barrier_init(empty_ + s, 8);  // warps that multiply
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }

  /// Fetches `chunks` chunks of 128 K-vectors of a and of b, first for products with the lowest
  /// slices of `lows`, then the three from `lowest` on; one thread.
  __device__ void fetch(const CUtensorMap* a, const CUtensorMap* b, int chunks, int k,
                        int k_vector_a, int k_vector_b, int lows, int lowest = 0) {
    const Next next(chunks, lows);
    for (int first = 0; first < next.count; first += 3) {
      pace_.step();
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        const int pair = 3 * ring_.stage + n;
        barrier_wait(empty_ + pair, ring_.phase ^ 1u);
        barrier_expect(full_ + pair, kSlicePairBytes);
        std::uint8_t* to = tiles_ + pair * kSlicePairBytes;
        const int of_a = next.slice_of_a(first + n);
        const int at = next.place(first + n, k);
        copy_box(to, a, full_ + pair, at, k_vector_a, of_a);
        copy_box(to + kBoxBytes, b, full_ + pair, at, k_vector_b, 1 - of_a);
      }
      ring_.advance();
    }
    for (int i = 0; i < chunks; ++i) {
      pace_.step();
#pragma unroll
      for (int n = 0; n < 3; ++n) {  // as they are given back
        const int slice = n == 0 ? 0 : 3 - n;
        const int pair = 3 * ring_.stage + slice;
        barrier_wait(empty_ + pair, ring_.phase ^ 1u);
        barrier_expect(full_ + pair, kSlicePairBytes);
        std::uint8_t* to = tiles_ + pair * kSlicePairBytes;
        copy_box(to, a, full_ + pair, k, k_vector_a, lowest + slice);
        copy_box(to + kBoxBytes, b, full_ + pair, k, k_vector_b, lowest + slice);
      }
      k += kChunkBytes;
      ring_.advance();
    }
  }
  /// Fetches those slices before the others of multiply_all() or multiply_four(); one thread.
  __device__ void fetch_lower(const CUtensorMap* a, const CUtensorMap* b, const LowerSlices& of,
                              int chunks, int k, int k_vector_a, int k_vector_b) {
    Ring<kTriplePairs> at = pairs();
    const int end = lower_pairs(of.count * chunks);
    for (int i = 0; i < end; ++i) {
      if (i % of.count == 0) pace_.step();
      barrier_wait(empty_ + at.stage, at.phase ^ 1u);
      if (i < of.count * chunks) {
        std::uint8_t* to = tiles_ + at.stage * kSlicePairBytes;
        std::uint64_t* full = full_ + at.stage;
        const int slice = static_cast<int>(of.number >> i % of.count * 4 & 15u);
        const int place = k + i / of.count * kChunkBytes;
        barrier_expect(full, kSlicePairBytes);
        copy_box(to, a, full, place, k_vector_a, slice);
        copy_box(to + kBoxBytes, b, full, place, k_vector_b, slice);
      } else {
        barrier_arrive(full_ + at.stage);
      }
      at.advance();
    }
    ring_ = {at.stage / 3, at.phase};
  }
  __device__ void keep_pace(std::uint32_t* arrivals) { pace_.keep(arrivals); }

  /// The sums of the next `chunks` chunks; one warpgroup, `group` 0 or 1.  Calls meanwhile() while
  /// two of them are multiplied.
  template <typename Work>
  __device__ void multiply(PairSums& sums, int chunks, int group, int lows, Work meanwhile) {
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) sums.w0[i] = sums.w1[i] = sums.w2[i] = 0;
    if (lows != 0) add_lows(sums.w0, Next(chunks, lows).count, group);
    add_upper(sums, chunks, group, meanwhile);
  }
  /// All nine products: of w1 the two with a lowest slice and a middle one, and of w0 that of
  /// lowest slices, which carry() takes and leaves in w0 what the other six are added to.
  template <typename Carry, typename Work>
  __device__ void multiply_all(PairSums& sums, int chunks, int group, Carry carry, Work meanwhile) {
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) sums.w0[i] = sums.w1[i] = 0;
    add_lower(sums, chunks, group);
    carry();
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) sums.w1[i] = sums.w2[i] = 0;
    add_upper(sums, chunks, group, meanwhile);
  }
  /// Of four slices those of weights 2 and 3, and if `Weight1` of that one, whose sums carry()
  /// takes in w0, w1 and w2 and leaves in w0 what the upper six are added to.
  template <bool Weight1, typename Carry, typename Work>
  __device__ void multiply_four(PairSums& sums, int chunks, int group, Carry carry,
                                Work meanwhile) {
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) sums.w0[i] = sums.w1[i] = sums.w2[i] = 0;
    add_lower_of_four<Weight1>(sums, chunks, group);
    carry();
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) sums.w1[i] = sums.w2[i] = 0;
    add_upper(sums, chunks, group, meanwhile);
  }

 private:
  template <typename Work>
  __device__ void add_upper(PairSums& sums, int chunks, int group, Work meanwhile) {
    int previous = -1;
    for (int i = 0; i < chunks; ++i) {
      const int pairs = 3 * ring_.stage;
      const SlicePair low = take(pairs, group);
      const SlicePair high = take(pairs + 2, group);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {  // 32 bytes are two units of a descriptor
        wgmma<Unit::s8>(sums.w0, low.a + 2 * step, high.b + 2 * step, 1);
        wgmma<Unit::s8>(sums.w2, high.a + 2 * step, high.b + 2 * step, 1);
        wgmma<Unit::s8>(sums.w0, high.a + 2 * step, low.b + 2 * step, 1);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (previous >= 0) release(previous);
      previous = pairs + 1;
      const SlicePair middle = take(previous, group);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(sums.w1, middle.a + 2 * step, high.b + 2 * step, 1);
        wgmma<Unit::s8>(sums.w1, high.a + 2 * step, middle.b + 2 * step, 1);
      }
      wgmma_commit();
      wgmma_wait<1>();
      release(pairs);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(sums.w0, middle.a + 2 * step, middle.b + 2 * step, 1);
      }
      wgmma_commit();
      if (i == min(1, chunks - 1)) meanwhile();
      wgmma_wait<1>();
      release(pairs + 2);
      ring_.advance();
    }
    if (chunks == 0) meanwhile();
    wgmma_wait<0>();
    if (previous >= 0) release(previous);
  }
  /// Pairs of a ring of their own, from the next stage on: whole stages of them, the last ones
  /// empty.
  __device__ Ring<kTriplePairs> pairs() const { return {3 * ring_.stage, ring_.phase}; }
  __device__ static int lower_pairs(int count) { return (count + 2) / 3 * 3; }
  __device__ void end_lower(Ring<kTriplePairs> at, int count) {
    for (int i = count; i < lower_pairs(count); ++i) {
      barrier_wait(full_ + at.stage, at.phase);
      release(at.stage);
      at.advance();
    }
    ring_ = {at.stage / 3, at.phase};
  }
  __device__ void add_lower(PairSums& sums, int chunks, int group) {
    Ring<kTriplePairs> at = pairs();
    int previous[2] = {-1, -1};
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      const int lowest = at.stage;
      const SlicePair low = take(lowest, at.phase, group);
      at.advance();
      const int next = at.stage;
      const SlicePair middle = take(next, at.phase, group);
      at.advance();
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(sums.w1, low.a + 2 * step, middle.b + 2 * step, 1);
        wgmma<Unit::s8>(sums.w0, low.a + 2 * step, low.b + 2 * step, 1);
        wgmma<Unit::s8>(sums.w1, middle.a + 2 * step, low.b + 2 * step, 1);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (i > 0) {
        release(previous[0]);
        release(previous[1]);
      }
      previous[0] = lowest;
      previous[1] = next;
    }
    wgmma_wait<0>();
    if (chunks > 0) {
      release(previous[0]);
      release(previous[1]);
    }
    end_lower(at, 2 * chunks);
  }
  template <bool Weight1>
  __device__ void add_lower_of_four(PairSums& sums, int chunks, int group) {
    Ring<kTriplePairs> at = pairs();
    int last[2] = {-1, -1};
    const auto next_pair = [&](int& pair) {
      pair = at.stage;
      const SlicePair taken = take(pair, at.phase, group);
      at.advance();
      return taken;
    };
    const auto add = [](std::uint32_t(&sum)[kPairWords], const SlicePair& one,
                        const SlicePair& other) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma<Unit::s8>(sum, one.a + 2 * step, other.b + 2 * step, 1);
      }
    };
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      int of[4];
      const SlicePair one = next_pair(of[1]);
      const SlicePair two = next_pair(of[2]);
      wgmma_fence();
      add(sums.w1, one, two);
      add(sums.w0, one, one);
      add(sums.w1, two, one);
      wgmma_commit();
      wgmma_wait<1>();
      if (i > 0) {
        release(last[0]);
        release(last[1]);
      }
      const SlicePair zero = next_pair(of[0]);
      wgmma_fence();
      if constexpr (Weight1) add(sums.w2, zero, one);
      add(sums.w0, zero, two);
      if constexpr (Weight1) add(sums.w2, one, zero);
      add(sums.w0, two, zero);
      wgmma_commit();
      wgmma_wait<1>();
      if constexpr (!Weight1) release(of[1]);
      const SlicePair three = next_pair(of[3]);
      wgmma_fence();
      add(sums.w1, zero, three);
      add(sums.w1, three, zero);
      wgmma_commit();
      wgmma_wait<1>();
      if constexpr (Weight1) release(of[1]);
      release(of[2]);
      last[0] = of[0];
      last[1] = of[3];
    }
    wgmma_wait<0>();
    if (chunks > 0) {
      release(last[0]);
      release(last[1]);
    }
    end_lower(at, 4 * chunks);
  }
  /// Products of lowest slices with middle ones, by chunks: of a, of b, or one of each in turn.
  struct Next {
    int both;  ///< 1: in turn
    int of_b;
    int count;
    __device__ Next(int chunks, int lows)
        : both(lows == (kLowsOfA | kLowsOfB) ? 1 : 0),
          of_b(lows == kLowsOfB ? 1 : 0),
          count(lows == 0 ? 0 : chunks << both) {}
    /// Slices 0 of a and 1 of b, or 1 of a and 0 of b.
    __device__ int slice_of_a(int i) const { return both != 0 ? i & 1 : of_b; }
    /// Beyond the last there are zeros.
    __device__ int place(int i, int k) const {
      return i < count ? k + (i >> both) * kChunkBytes : 1 << 30;
    }
  };
  __device__ void add_lows(std::uint32_t (&w0)[kPairWords], int count, int group) {
    int previous = -1;
#pragma unroll 1
    for (int first = 0; first < count; first += 3) {
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        const int pair = 3 * ring_.stage + n;
        const SlicePair at = take(pair, group);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          wgmma<Unit::s8>(w0, at.a + 2 * step, at.b + 2 * step, 1);
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (previous >= 0) release(previous);
        previous = pair;
      }
      ring_.advance();
    }
    wgmma_wait<0>();
    if (previous >= 0) release(previous);
#pragma unroll
    for (int i = 0; i < kPairWords; ++i) {
      w0[i] = static_cast<std::uint32_t>(carried(static_cast<std::int32_t>(w0[i])));
    }
  }
  /// Descriptors of a slice of both factors.
  struct SlicePair {
    std::uint64_t a, b;
  };
  __device__ SlicePair take(int pair, int group) const { return take(pair, ring_.phase, group); }
  __device__ SlicePair take(int pair, std::uint32_t phase, int group) const {
    barrier_wait(full_ + pair, phase);
    const std::uint32_t tiles = shared_address(tiles_ + pair * kSlicePairBytes);
    return {tile_descriptor(tiles + group * 64 * kChunkBytes), tile_descriptor(tiles + kBoxBytes)};
  }
  __device__ void release(int pair) {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty_ + pair);
  }

  std::uint8_t* tiles_;
  std::uint64_t* full_;
  std::uint64_t* empty_;
  Ring<kTripleStages> ring_;
  Pace pace_;
};

}  // namespace mxo::cuda
