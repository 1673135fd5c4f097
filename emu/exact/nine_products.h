// What a device makes of all nine products of three slices: their sum as an integer, and its one
// rounding to f32.  docs/exact_product.md, Three slices into f32.
#pragma once

#include <cstdint>

#include "emu/exact/rounding_test.h"
#include "emu/exact/three_slices_bounds.h"

namespace mxo {

/// Residuals of a K-vector whose products are added: those of two K-vectors, each at most 2^22,
/// times two, fit int32.
inline constexpr int kMostRests = 64;

/// A residual times an element of the other K-vector, both in quanta and of eight bits: twice the
/// nearest integer, or one more if that is not the product.  Sums of it are made of the even parts;
/// bit 0 of a sum says that one of them is not exact.  So a product of two residuals is not.
MXO_HD inline std::int32_t rest_product(float rest, float element) {
  const float product = rest * element;
  const float integer = rintf(product);
  return static_cast<std::int32_t>(integer) * 2 + (integer != product ? 1 : 0);
}
/// How far `sum` is off: each product by half at most, and both of one place hold that of their
/// residuals, at most a quarter, twice.
MXO_HD inline std::int64_t off_of_rests(bool exact, std::int32_t of_a, std::int32_t of_b) {
  return exact ? 0 : std::int64_t{of_a} + of_b;
}

/// The products of the lower weights: what they add to 65536, and the rest.
struct LowerSum {
  std::int32_t carried;
  std::int16_t left;
};
/// `w1` counts 256: products with one lowest slice and a middle one; `w0` has those of lowest ones,
/// `rests` what rest_product() gave.
MXO_HD inline LowerSum lower_sum(std::int32_t w1, std::int32_t w0, std::int32_t rests) {
  const std::int64_t sum = std::int64_t{w1} * 256 + w0 + (rests >> 1);
  return {static_cast<std::int32_t>((sum + 32768) >> 16), static_cast<std::int16_t>(sum)};
}
/// All nine: w2, w1 and w0 count 65536, 256 and 1 times 65536.  Below 2^62.
MXO_HD inline std::int64_t whole_sum(std::int32_t w2, std::int32_t w1, std::int32_t w0,
                                     std::int16_t left) {
  return std::int64_t{w2} * (std::int64_t{1} << 32) + std::int64_t{w1} * (1 << 24) +
         std::int64_t{w0} * 65536 + left;
}

/// The f32 of every number within `off` of `sum`, times 2^exponent, if it is normal or 0.
MXO_HD inline RoundingTest round_whole(std::int64_t sum, std::int64_t off, int exponent) {
  const auto low = bit_cast<std::uint32_t>(static_cast<float>(sum - off));
  const auto high = bit_cast<std::uint32_t>(static_cast<float>(sum + off));
  const int field = static_cast<int>(low >> 23 & 0xFF) + exponent;
  if (low == 0) return {0, high == 0};
  return {low + (static_cast<std::uint32_t>(exponent) << 23),
          low == high && field > 0 && field < 0xFF};
}

}  // namespace mxo
