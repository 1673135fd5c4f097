// How scales multiply sums: that of one block of K as it joins those before, and the finished one.
#pragma once

#include <cmath>

#include "ops/sums.h"

namespace mxo {

MXO_HD inline float fold_block(Fold fold, float p, float scale_a, float scale_b, float acc) {
  switch (fold) {
    case Fold::x_then_w: return std::fma(p * scale_a, scale_b, acc);
    case Fold::joint: return std::fma(p, scale_a * scale_b, acc);
    case Fold::joint_add: return acc + p * (scale_a * scale_b);
    default: return acc + p;
  }
}

/// The finished sum v with the scales that multiply after it.
MXO_HD inline float scaled_sum(Fold fold, float v, float scale_a, float scale_b) {
  return fold == Fold::after_joint ? v * (scale_a * scale_b) : v * scale_a * scale_b;
}

}  // namespace mxo
