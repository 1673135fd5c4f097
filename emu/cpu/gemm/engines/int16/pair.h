// Two integer panels of a packed block, multiplied some runs at a time.
#pragma once

#include <span>

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

struct RunRange {
  Index first;
  Index end;
};

/// Halves of NR whose sums are added one at a time, each over all panels of A before the next,
/// because its share of B stays in L1.
inline int integer_parts(const Kernels& kernels) {
  return kernels.slices != nullptr ? kMaxNr / kTileLanes : 1;
}

/// Sums are [m][nr] in f64.
class MicroPanelPair {
 public:
  /// Runs are counted as in B, whose first is run `first_of_a` of A.
  MicroPanelPair(const Kernels& kernels, const KBlock& k_block, const MicroPanel& a,
                 Index first_of_a, const MicroPanel& b)
      : kernels_(kernels), k_block_(k_block), a_(a), first_of_a_(first_of_a), b_(b) {}

  /// Products of integers; of two slices `runs` is one span.
  void add_integers(const RunRange& runs, int half, double* sums) const;
  /// Residuals of A with all of B, and where both have one.
  void add_residuals_of_a(const RunRange& runs, double* sums) const;
  /// Residuals of B with the integers of A: into `sums` where B has few of them, else, or if it is
  /// `used`, into `transposed`, [n][kMaxMr], which the first of them zeroes.  True if
  /// `transposed` is in use.
  bool add_residuals_of_b(const RunRange& runs, double* sums, double* transposed, bool used) const;

 private:
  void add_pairs(Index run, double* sums) const;
  void add_residuals_to_integers(Index run, std::span<const Residual> residuals,
                                 double* sums) const;
  void add_residual_of_b(Index run, const Residual& residual, double* column) const;
  void add_columns(Index run, std::span<const Residual> residuals, double* sums) const;
  void add_two_slices(const RunRange& runs, int half, double* sums) const;
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

  const Kernels& kernels_;
  const KBlock& k_block_;
  const MicroPanel& a_;
  Index first_of_a_;
  const MicroPanel& b_;
};

}  // namespace mxo::cpu
