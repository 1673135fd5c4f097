// How the sum of one block of K joins those before, with the scales of its two sides.
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

}  // namespace mxo
