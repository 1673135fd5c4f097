// Two integer panels of a packed block, multiplied some runs at a time, and their residuals.
#pragma once

#include <algorithm>
#include <span>

#include "emu/cpu/gemm/tiles/tile.h"

namespace mxo::cpu {

/// Sums are [m][nr] in f64.
class IntegerPair {
 public:
  /// Runs are numbered as in B; B's first is run `first_of_a` of A.
  IntegerPair(const Kernels& kernels, const KBlock& k_block, const MicroPanel& a, Index first_of_a,
              const MicroPanel& b)
      : kernels_(kernels), k_block_(k_block), a_(a), first_of_a_(first_of_a), b_(b) {}

  /// `at` counted over all that A holds; and from the kc block on.
  std::span<const Residual> residuals_of_a(const RunRange& runs) const {
    return a_.residuals_in({first_of_a_ + runs.first, first_of_a_ + runs.end});
  }
  std::span<const Residual> residuals_of_b(const RunRange& runs) const {
    return b_.residuals_in(runs);
  }
  /// Where both have a residual.
  void add_products_of_residuals(const RunRange& runs, double* sums) const;

  const KBlock& k_block() const { return k_block_; }
  const MicroPanel& a() const { return a_; }
  /// The element of A at which run `run` starts.
  Index element_of_a(Index run) const { return (first_of_a_ + run) * kRun; }
  /// The run's blocks have units of their own.
  bool split(Index run) const { return (a_.split[first_of_a_ + run] | b_.split[run]) != 0; }
  const std::int32_t* data_a(Index run) const {
    return static_cast<const std::int32_t*>(a_.data) + (first_of_a_ + run) * kRunPairs * a_.step;
  }
  const std::int32_t* data_b(Index run) const {
    return static_cast<const std::int32_t*>(b_.data) + run * kRunPairs * b_.step;
  }
  const double* scales_a(Index block) const {
    return a_.scales + (first_of_a_ * kRunBlocks + block) * a_.scale_step;
  }
  const double* scales_b(Index block) const { return b_.scales + block * b_.scale_step; }

 private:
  void add_products_of_residuals(Index run, double* sums) const;

  const Kernels& kernels_;
  const KBlock& k_block_;
  const MicroPanel& a_;
  Index first_of_a_;
  const MicroPanel& b_;
};

/// Pair `at` gets residuals of B times the integers of A, [n][kMaxMr]: zeros, unless it has.
double* transposed_of(TileScratch& scratch, int at);
/// After sum_integers: the transposed residuals, after the last kc block that the scratch sees, and
/// the pairs with residual overflow.
void finish_integers(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);

/// Before the first kc block that the scratch sees.
inline void begin_transposed(const KcTile& tile, TileScratch& scratch) {
  if (!tile.first) return;
  std::fill(scratch.has_transposed, scratch.has_transposed + tile.tall() * tile.wide(), false);
}

/// Adds a kc block, `step` runs at a time: add(pair, runs, sums, at) adds the products of pair
/// `at`, over all panels of A, so that B's part stays in L1.
template <typename Add>
void sum_integers(const Kernels& kernels, const KcTile& tile, TileScratch& scratch, Index step,
                  const Add& add) {
  begin_transposed(tile, scratch);
  for (Index start = 0; start < tile.k_block.runs(); start += step) {
    const RunRange runs{start, std::min(start + step, tile.k_block.runs())};
    for (int j = 0; j < tile.wide(); ++j) {
      for (int i = 0; i < tile.tall(); ++i) {
        if (tile.a[i].residual_overflow || tile.b[j].residual_overflow) continue;
        const IntegerPair pair(kernels, tile.k_block, tile.a[i], tile.first_of_a, tile.b[j]);
        add(pair, runs, block_of(*tile.tile, scratch, i, j), j * tile.tall() + i);
      }
    }
  }
}

}  // namespace mxo::cpu
