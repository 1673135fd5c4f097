// Two panels of byte planes whose depth is one span: outputs one by one, where the rounding of many
// left them open.
#pragma once

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

class PlanePair {
 public:
  PlanePair(const Depth& depth, const Panel& a, const Panel& b, const PlaneSums* halves)
      : depth_(depth), a_(a), b_(b), halves_(halves) {}

  /// The sum of the integers' products, and of all with a rest; as many roundings as the lines'
  /// bounds count.
  double sum(int m, int n) const;
  /// Adds, in f32 and in units of both lines, the products of a rest of row m or of one of
  /// `columns` with the other line's integers to the row's sums.
  void sum_rests(int m, std::uint32_t columns, float (&row)[kMaxLanesB]) const;

  const LineErrors& errors_of_a() const { return a_.errors; }
  const LineErrors& errors_of_b() const { return b_.errors; }
  const PlaneSums& half(int i) const { return halves_[i]; }
  /// Sums of deeper ones may pass 2^24 in the lowest plane.
  bool is_deep() const { return depth_.count > 256; }

 private:
  int integer_of_a(int m, int at) const;
  int integer_of_b(int n, int at) const;

  const Depth& depth_;
  const Panel& a_;
  const Panel& b_;
  const PlaneSums* halves_;
};

}  // namespace mxo::cpu
