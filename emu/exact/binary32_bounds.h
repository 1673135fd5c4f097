// What sums that the CPU's engines round in binary32 are off by; docs/exact_product.md, "Sums
// rounded in binary32".
#pragma once

#include <cmath>

namespace mxo::cpu {

/// Two slices: of the magnitude of the sum, rounded to odd.
inline constexpr float kOfOdd = 0x1p-21f;

/// Three slices: of the magnitude of the sum, recombined in multiples of 256 units.
inline constexpr float kOfThreeSlices = 5.25f * 0x1p-24f;

/// The share of a K-vector of `count` elements, in multiples of 256 units: what its lower slices,
/// of a norm of at most `low`, add to the roundings, and the sum of the lowest, which is left out.
inline double share_of_three_slices(double norm, double count) {
  const double low = 0x8080 * std::sqrt(count);
  return 5.5 * 0x1p-32 * low * (norm + 1.5 * low) + 33.0 * count;
}

/// bf16: the exponent of a K-vector's part in the last place of sums of its blocks, whose norms are
/// at most `norm`.  Each element below it is small, and costs a last place.
inline int place_of_blocks(double norm) { return std::ilogb(norm * (1.0 + 0x1p-7)) + 1 - 12; }

}  // namespace mxo::cpu
