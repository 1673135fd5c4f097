// Two panels of digits whose products are summed: outputs one by one, where the rounding of many
// left them open.
#pragma once

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

class DigitPair {
 public:
  DigitPair(const Depth& depth, const Panel& a, const Panel& b, const DigitSums* halves)
      : depth_(depth), a_(a), b_(b), halves_(halves) {}

  /// The sum of the integers' products, and of all with a rest; as many roundings as the lines'
  /// bounds count.
  double sum(int m, int n) const;

 private:
  double integer_of_a(int m, std::uint32_t at) const;
  double integer_of_b(int n, std::uint32_t at) const;

  const Depth& depth_;
  const Panel& a_;
  const Panel& b_;
  const DigitSums* halves_;
};

}  // namespace mxo::cpu
