// Two integer panels of a job, multiplied some runs at a time.
#pragma once

#include <span>

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

struct RunRange {
  Index first;
  Index past;
};

/// Parts of a pair's sums that are added one at a time, each over all panels of A before the
/// next, because the part's share of B stays in the first cache: halves of planes.
inline int integer_parts(const Kernels& kernels) {
  return kernels.planes != nullptr ? kMaxLanesB / kTileLanes : 1;
}

/// Sums are [m][lanes_b] in f64.
class PanelPair {
 public:
  /// Runs are counted as in B, whose first is run `first_of_a` of A.
  PanelPair(const Kernels& kernels, const Depth& depth, const Panel& a, Index first_of_a,
            const Panel& b)
      : kernels_(kernels), depth_(depth), a_(a), first_of_a_(first_of_a), b_(b) {}

  /// Products of integers; of planes `runs` is one span.
  void add_integers(const RunRange& runs, int part, double* sums) const;
  /// Rests of A with all of B, and where both have one.
  void add_rests_of_a(const RunRange& runs, double* sums) const;
  /// Rests of B with the integers of A: into `sums` where B has few of them, else, or if it is
  /// `used`, into `turned`, [n][kMaxLanesA], which the first of them zeroes.  True if `turned` is
  /// in use.
  bool add_rests_of_b(const RunRange& runs, double* sums, double* turned, bool used) const;

 private:
  void add_pairs(Index run, double* sums) const;
  void add_rests_to_integers(Index run, std::span<const Rest> rests, double* sums) const;
  void add_rest_of_b(Index run, const Rest& rest, double* column) const;
  void add_columns(Index run, std::span<const Rest> rests, double* sums) const;
  void add_planes(const RunRange& runs, int half, double* sums) const;
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
  const Depth& depth_;
  const Panel& a_;
  Index first_of_a_;
  const Panel& b_;
};

}  // namespace mxo::cpu
