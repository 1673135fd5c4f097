// What a device's sums of two slices are off by: the bounds of docs/exact_product.md, in its
// arithmetic.
#pragma once

#include <cmath>

#include "formats/host_device.h"

namespace mxo {

/// What an output needs of a K-vector.
struct FactorAndRest {
  float factor;  ///< of its integers: 2^q, and a row-wise scale; 0 for a K-vector of zeros
  float rest;    ///< its share of what the sums are off by; infinite: no output is decided
};

/// The share of a K-vector whose residuals' magnitudes add up to at most `left`, in quanta.  What
/// high slices leave of an integer is at most 128, roundings of a correction are less than a
/// quarter of that, what is left at one place by both is less than that sum, and 4 for sums in
/// binary32; then w0's share of the roundings, of at most 2^21 a chunk.
MXO_HD inline float share_of_high_slices(float left, int chunks) {
  const float of_residuals = left > 0.0f ? fmaf(left, 162.1f, 4.0f) : 0.0f;
  return of_residuals + static_cast<float>(chunks);
}

/// The ends of an output's interval, corrected by high slices.  In binary32, off by less than 16
/// roundings, 2^-24 each, of the magnitudes of all parts, P = 65536 |w2| + 256 |w1| + |w0| + 256
/// |c|: of the three parts, of three sums, of the factors, their product and its with the sum, of
/// the bound, of the ends.  P <= 256 (|256 w2 + w1| + 2 |w1| + |c|) + |w0|; the share of w0 is in
/// the rest.
struct IntervalEnds {
  float low;
  float high;
};
MXO_HD inline IntervalEnds ends_of_slices(float w2, float w1, float w0, float correction,
                                          const FactorAndRest& a, const FactorAndRest& b) {
  const float upper = fmaf(w2, 256.0f, w1);
  const float sum = fmaf(correction, 256.0f, fmaf(upper, 256.0f, w0));
  const float magnitude = (fabsf(upper) + fabsf(w1)) + (fabsf(w1) + fabsf(correction));
  const float off = fmaf(magnitude, 0x1p-12f, a.rest + b.rest);
  const float factor = a.factor * b.factor;
  // The least number covers roundings of subnormal numbers.  What is no number gets a bound, too.
  const float slack = fminf(fmaf(off, factor, fminf(factor, 0x1p-120f)), INFINITY);
  return {fmaf(sum, factor, -slack), fmaf(sum, factor, slack)};
}

/// Of scaled runs, added in binary64: two fused steps a run, the correction, and what raises the
/// bound, each at most 2^-53 of the norms' product.
MXO_HD inline float roundings_of_runs(int runs) {
  return static_cast<float>(2 * runs + 4) * 0x1p-53f;
}

/// Residuals of a K-vector in scaled runs.
struct ScaledResiduals {
  int count;
  float left;  ///< at least the sum of |residual| times scale
  float peak;  ///< at least every |integer| times scale
};
/// How far corrections of scaled runs may be off, in quanta: by what their additions round, each
/// list's items, those at one place, and four more; where those at one place are not added, by
/// these.
MXO_HD inline float off_of_corrections(const ScaledResiduals& a, const ScaledResiduals& b,
                                       bool adds_one_place) {
  const auto additions =
      static_cast<float>(2 * (a.count + b.count) + 8) + (adds_one_place ? 0.0f : 512.0f);
  return fmaf(a.left, b.peak, b.left * a.peak) * (additions * 0x1.001p-24f);
}

}  // namespace mxo
