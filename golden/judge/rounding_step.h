// How far one rounding to nearest may move a number.
#pragma once

#include <cmath>
#include <limits>

#include "formats/dtype.h"

namespace mxo {

/// The next double above: makes the result of one rounded operation an upper bound.
inline double up(double value) {
  return std::nextafter(value, std::numeric_limits<double>::infinity());
}

/// Half a step of the type `out` at magnitudes up to `magnitude`, rounded to nearest.
inline double half_step(Dtype out, double magnitude) {
  const int precision = out == Dtype::bf16 ? 8 : out == Dtype::f16 ? 11 : 24;
  const int least = out == Dtype::bf16 ? -134 : out == Dtype::f16 ? -25 : -150;
  return up(up(magnitude * std::ldexp(1.0, -precision)) + std::ldexp(1.0, least));
}

/// Magnitudes above this may be infinite as `out`.
inline double largest(Dtype out) {
  return out == Dtype::f16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace mxo
