// Two panels of byte planes whose depth is one span: outputs one by one, where the rounding of many
// left them open.
#pragma once

#include "emu/cpu/gemm/panel.h"

namespace mxo::cpu {

class PlanePair {
 public:
  PlanePair(const Depth& depth, const Panel& a, const Panel& b, const PlaneSums* halves)
      : depth_(depth), a_(a), b_(b), halves_(halves) {}

  /// The sum of the integers' products, and of all with a rest; as many roundings as the lines'
  /// bounds count.
  double sum(int m, int n) const;
  /// All products of a rest of one line with the integers of the other, in f32.
  void sum_rests(RestSums& sums) const;

 private:
  double value_of_a(int m, Index run, std::uint32_t at) const;
  double value_of_b(int n, Index run, std::uint32_t at) const;

  const Depth& depth_;
  const Panel& a_;
  const Panel& b_;
  const PlaneSums* halves_;
};

}  // namespace mxo::cpu
