// Two panels of three slices whose products are summed: outputs one by one, those that failed the
// rounding test in f32.
#pragma once

#include "emu/cpu/gemm/engines/three_slices/three_slices.h"

namespace mxo::cpu {

class ThreeSlicePair {
 public:
  ThreeSlicePair(const KBlock& k_block, const MicroPanel& a, const MicroPanel& b,
                 const ThreeSliceSums* halves)
      : k_block_(k_block), a_(a), b_(b), halves_(halves) {}

  /// The sum of the integers' products, and of all with a residual; as many roundings as the
  /// K-vectors' bounds count.
  double sum(int m, int n) const;

 private:
  double integer_of_a(int m, std::uint32_t at) const;
  double integer_of_b(int n, std::uint32_t at) const;

  const KBlock& k_block_;
  const MicroPanel& a_;
  const MicroPanel& b_;
  const ThreeSliceSums* halves_;
};

}  // namespace mxo::cpu
