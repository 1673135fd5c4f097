// What a device's sums of three slices are off by: the bounds of docs/exact_product.md, in its
// arithmetic.
#pragma once

#include <cmath>
#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

/// Chunks of 128 whose three products of slices of one weight, and a 256th of two of the next, fit
/// int32: 2^14 each.
inline constexpr int kMaxTripleChunks = 340;

/// What the outputs need of a K-vector of three slices.
struct TripleFact {
  float factor;  ///< 2^(q + 8); 0 for a K-vector of zeros
  float rest;    ///< its share of what the sums are off by, in 65536 quanta of both K-vectors;
                 ///< infinite: no output is decided
};

/// The share of a K-vector but for its lowest slices: residuals whose magnitudes add up to `left`
/// times less than 2^23, roundings of w0, of at most 3 * 2^21 a chunk and a 256th of two more, and
/// of that 256th.
MXO_HD inline float share_of_residuals(float left, int chunks) {
  return fmaf(left, 128.2f, fmaf(1.6f, static_cast<float>(chunks), 0.3f));
}
/// The share of its lowest slices, whose magnitudes add up to `low`: times the other's middle ones
/// and half of those with its lowest ones; if the former are `added`, of the latter alone.
MXO_HD inline float share_of_lows(float low, bool added) {
  return low * (added ? 0.00098f : 0.502f);
}

/// A sum of the next weight's products as a part of w0: to the nearest.
MXO_HD inline std::int32_t carried(std::int32_t next) { return (next + 128) >> 8; }

/// How far the sums are off, in quanta, with what lists add: lowest slices times each other, at
/// most 128 times the lesser sum of their magnitudes; residuals, whose magnitudes add up to `left`,
/// each times less than 2^23, or, those that were `taken` times high slices, times what these leave
/// of an integer, at most 0x8080; and, where products with lowest slices were carried, 2^15 of that
/// and 2^-6 * 2^16 of a list of residuals.
MXO_HD inline double off_of_lists(int low_a, int low_b, float left_a, bool taken_a, float left_b,
                                  bool taken_b, bool added) {
  const auto of = [](float left, bool taken) {
    return static_cast<double>(left) * (taken ? 0x8081 : 0x1p23);
  };
  return 128.0 * (low_a < low_b ? low_a : low_b) + of(left_a, taken_a) + of(left_b, taken_b) +
         (added ? 34816.0 : 0.0);
}

/// The ends of an output's interval.  In binary32, off by less than 4 roundings, 2^-24 each, of the
/// magnitudes of all parts, P = 65536 |w2| + 256 |w1| + |w0| <= 256 (|256 w2 + w1| + 2 |w1|) +
/// |w0|: of the parts together one, of two sums, of the end.  Eight are allowed, for the bound's
/// own too.  The share of w0 is in the facts.
struct TripleEnds {
  float low;
  float high;
};
MXO_HD inline TripleEnds ends_of_triple(float w2, float w1, float w0, const TripleFact& a,
                                        const TripleFact& b) {
  const float upper = fmaf(w2, 256.0f, w1);
  const float sum = fmaf(upper, 256.0f, w0);
  const float magnitude = fmaf(fabsf(w1), 2.0f, fabsf(upper));
  const float off = fmaf(magnitude, 0x1p-13f, a.rest + b.rest);
  const float factor = a.factor * b.factor;
  // The least number covers roundings of subnormal numbers.  What is no number gets a bound, too.
  const float slack = fminf(fmaf(off, factor, fminf(factor, 0x1p-120f)), INFINITY);
  return {fmaf(sum, factor, -slack), fmaf(sum, factor, slack)};
}

}  // namespace mxo
