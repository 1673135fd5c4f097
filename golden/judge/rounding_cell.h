// Which numbers round to a value, and doubles that are rounded upward.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/dtype.h"

namespace mxo {

/// The next double above: makes the result of one rounded operation an upper bound.
inline double up(double value) {
  return std::nextafter(value, std::numeric_limits<double>::infinity());
}

/// Ends included: a tie may go either way.
struct RoundingCell {
  double low = 0;
  double high = 0;
};

/// The numbers that have no nearer neighbour than `value` among those of type `out`, which would go
/// on beyond the largest: its next one is infinity.  A type that rounds no sum: `value` alone.
/// Exact.
inline RoundingCell rounding_cell(Dtype out, double value) {
  if (out != Dtype::bf16 && out != Dtype::f16 && out != Dtype::f32) return {value, value};
  const int digits = out == Dtype::bf16 ? 8 : out == Dtype::f16 ? 11 : 24;
  const int least = out == Dtype::f16 ? -14 : -126;
  const int most = out == Dtype::f16 ? 15 : 127;
  const double magnitude = std::fabs(value);
  RoundingCell cell;
  if (std::isinf(value)) {
    cell = {std::ldexp(2 - std::ldexp(1.0, -digits), most), magnitude};
  } else {
    const int exponent = magnitude == 0 ? least : std::max(std::ilogb(magnitude), least);
    const double half = std::ldexp(1.0, exponent - digits);
    // Below a power of two steps are half as long, but for subnormal ones.
    const bool edge = exponent > least && magnitude == std::ldexp(1.0, exponent);
    cell = {magnitude - (edge ? half / 2 : half), magnitude + half};
  }
  return value < 0 ? RoundingCell{-cell.high, -cell.low} : cell;
}

}  // namespace mxo
