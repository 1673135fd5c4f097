// What a device's sums of four slices are off by: the bounds of docs/exact_product.md, in its
// arithmetic.
#pragma once

#include <cmath>
#include <cstdint>

#include "emu/exact/three_slices_bounds.h"

namespace mxo {

/// Chunks of 128 whose four products of slices of one weight, and a 256th of three of the next and
/// two of the one after that, fit int32: 2^14 each.
inline constexpr int kMaxFourChunks = 254;

/// A K-vector's share of what the sums are off by, in 2^32 quanta of both K-vectors: residuals
/// whose magnitudes add up to `left` times at most 2^31; lowest slices whose magnitudes add up to
/// `low` times the other's next ones, 2^15, unless those products are `added`, and half of those
/// with its lowest ones, 64; and half of the half unit that is lost as weight 2 is carried, 2^-10,
/// and of a 2^8th of that.
MXO_HD inline float share_of_four_slices(float left, float low, bool added) {
  return fmaf(left, 0.501f, fmaf(low, added ? 0x1.01p-26f : 0x1.01p-17f, 0x1.02p-10f));
}

/// The products of lesser weights as a part of the upper ones' least, and what that lacks, in
/// 256ths of its unit: of weight 3 exactly, of weights 2 and 1 to the nearest.
struct CarriedSum {
  std::int32_t carried;
  std::int8_t left;
};
MXO_HD inline CarriedSum carry_of_four(std::int32_t w3, std::int32_t w2, std::int32_t w1) {
  const std::int32_t sum = w3 + carried(w2 + carried(w1));
  return {carried(sum), static_cast<std::int8_t>(sum)};
}

/// The ends of an output's interval; w2, w1 and w0 count 65536, 256 and 1, `left` a 256th.  As
/// those of three slices, but w0, which all of them may be, has its own roundings, and one more.
MXO_HD inline TripleEnds ends_of_four(float w2, float w1, float w0, float left, const TripleFact& a,
                                      const TripleFact& b) {
  const TripleFact all{a.factor, fmaf(fabsf(w0), 0x1p-20f, a.rest + b.rest)};
  return ends_of_triple(w2, w1, fmaf(left, 0x1p-8f, w0), all, {b.factor, 0.0f});
}

}  // namespace mxo
