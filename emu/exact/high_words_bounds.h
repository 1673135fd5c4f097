// Sums of scaled runs in integers of 32 bits, and how far they are off: docs/exact_product.md,
// "Scaled runs", in its arithmetic.
#pragma once

#include <cmath>
#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

/// 2^(1 + shift).
MXO_HD inline float power_of_shift(int shift) {
  return bit_cast<float>(static_cast<std::uint32_t>(1 + shift + 127) << 23);
}

/// By what runs' products are shifted, whose magnitudes are at most `run`: the power of two above
/// it, raised, over 2^31.
MXO_HD inline int shift_of_runs(float run) {
  const int above = static_cast<int>(bit_cast<std::uint32_t>(run * 1.02f) >> 23) - 127 - 30;
  return above > 0 ? above : 0;
}

/// w, of a row: the product of scales above the greatest of either side, over 2^31.  `power`:
/// power_of_shift.
struct UnitOfRuns {
  float sum;     ///< 2^(32 + shift) w
  float factor;  ///< 1 / w
  float rest;    ///< that it lacks
};
MXO_HD inline UnitOfRuns unit_of_runs(float scale_a, float scale_b, float power) {
  const float sum = power * scale_b * scale_a;
  const double factor = static_cast<double>(power) * 0x1p31 / static_cast<double>(sum);
  const auto rounded = static_cast<float>(factor);
  return {sum, rounded, static_cast<float>(factor - static_cast<double>(rounded))};
}

/// s_a s_b / w.  S is the whole number nearest `first` and, of what that leaves, the nearest again.
struct ScaleInUnits {
  float first;
  float second;
  MXO_HD float left(std::int32_t nearest_first) const {
    return second + (first - static_cast<float>(nearest_first));
  }
};
MXO_HD inline ScaleInUnits scale_in_units(float a, float b, float factor, float rest) {
  const float product = a * b;
  const float lacking = fmaf(a, b, -product);
  const float first = product * factor;
  return {first, fmaf(lacking, factor, fmaf(product, rest, fmaf(product, factor, -first)))};
}

/// What sums lie above what is kept, give or take as much: of one more run, 1 for what its product
/// over 2^shift left and S 2^-32 for its high word, or half of both; and of sums that are halved.
MXO_HD inline float middle_with_run(float middle, std::int32_t scale) {
  return middle + fmaf(static_cast<float>(scale), 0x1p-33f, 0.5f);
}
MXO_HD inline float middle_of_halves(float middle) { return fmaf(middle, 0.5f, 0.25f); }

/// That, and what S is off by: 1/2 and what its parts lost, of products over 2^(32 + shift).
MXO_HD inline float off_of_runs(float middle, int runs, float run, float power) {
  const float of_scales = static_cast<float>(runs) * run * (0x1.05p-32f / power);
  return middle + of_scales + 0.5f;
}

/// The ends of an output's interval; `zeros`: of a K-vector of zeros.  In binary32: five roundings
/// of the sum, the correction and the bound.
struct HighWordsEnds {
  float low;
  float high;
};
MXO_HD inline HighWordsEnds ends_of_high_words(float sum, float unit, float off, float correction,
                                               float rest, bool zeros) {
  if (zeros) sum = 0;
  const float all = fmaf(sum, unit, correction);
  const float magnitude = fmaf(fabsf(sum), unit, fabsf(correction));
  const float of_sum = fmaf(off, unit, magnitude * 0x1.8p-22f);
  const float whole = fminf(rest + (zeros ? 0.0f : of_sum), INFINITY);
  return {all - whole, all + whole};
}

}  // namespace mxo
