// Outputs of a tile from residues of its sums: put together, tested and rounded.
#pragma once

#include "emu/cuda/gemm/residue_tiles.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"

namespace mxo::cuda::residues {

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
__device__ inline void prepare(const Job& job, const Work& work, Fact* facts, Combination& to,
                               int made) {
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

/// Bounds of what residuals add to a thread's outputs, a byte to each.
struct Bounds {
  const std::uint32_t* words;  ///< none: those by norms of K-vectors are all
  std::uint32_t least;
};
/// Bits of a binary32 that they leave out.
constexpr int kBoundShift = 20;

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
__device__ inline void store(const Problem& p, Index at, const std::uint32_t (&bits)[2],
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
                      const Combination& combination, const std::uint32_t* residues,
                      const Bounds& bounds) {
  const Problem& p = job.p;
  const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
  const Index corner = p.out_at(work.tile.group, work.tile.row, work.tile.column);
  const int rows[2] = {group * 64 + row_of_word(0), group * 64 + row_of_word(2)};
  const Fact of_rows[2] = {facts[rows[0]], facts[rows[1]]};
  std::uint32_t failed[2] = {};
#pragma unroll 1
  for (int first = 0; first < kColumns / 2; first += 4) {
    Recombined known[4];
    combine<Count>(combination, residues + first / 4 * 256, known);
    const std::uint32_t by_blocks =
        bounds.words == nullptr ? 0 : __ldcg(bounds.words + first / 4 * 256);
    const int column = column_of_word(first);
    const Fact of_columns[2] = {facts[kTileRows + column], facts[kTileRows + column + 1]};
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      const Fact& a = of_rows[down];
      std::uint32_t bits[2] = {};
      bool stored[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const Fact& b = of_columns[side];
        const Recombined& sum = known[2 * down + side];
        float residuals = residual_bound(a.window, b.window);
        if (bounds.words != nullptr) {
          const std::uint32_t above = by_blocks >> (2 * down + side) * 8 & 0xFF;
          residuals = fminf(residuals, __uint_as_float((above + bounds.least) << kBoundShift));
        }
        const RoundingTest rounded =
            test_rounding(sum.sum, sum.lost + static_cast<double>(residuals),
                          static_cast<double>(a.scale) * static_cast<double>(b.scale),
                          a.window.quantum + b.window.quantum, mantissa);
        bits[side] = rounded.bits;
        const bool passed =
            rounded.passed && a.window.slices < kBeyond && b.window.slices < kBeyond;
        const bool there = rows[down] < work.rows && column + side < work.columns;
        stored[side] = there && passed;
        failed[down] |= there && !passed ? 1u << (column + side) % 32 : 0u;
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
__device__ inline void write(const Job& job, const Work& work, int group, const Fact* facts,
                             const Combination& combination, const std::uint32_t* residues,
                             const Bounds& bounds) {
  switch (max(limbs_of(work.moduli), 1)) {
    case 1: return write<1>(job, work, group, facts, combination, residues, bounds);
    case 2: return write<2>(job, work, group, facts, combination, residues, bounds);
    case 3: return write<3>(job, work, group, facts, combination, residues, bounds);
    case 4: return write<4>(job, work, group, facts, combination, residues, bounds);
    default: return write<kLimbs>(job, work, group, facts, combination, residues, bounds);
  }
}

}  // namespace mxo::cuda::residues
