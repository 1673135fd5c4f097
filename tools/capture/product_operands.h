// The operands of a captured library product, as a pure function of seed and position: a capture
// keeps the outputs only, and a check makes the same operands again.
#pragma once

#include "formats/minifloat.h"
#include "formats/philox.h"
#include "formats/tensor_view.h"

namespace mxo::capture {

/// About N(0, 1) with every 97th column 16 times as large, the outlier channels of activations.
/// One rounding a step, so host and device agree to the bit.
MXO_HD inline float product_operand(std::uint64_t seed, Index row, Index k, Index columns) {
  const auto words = philox(static_cast<std::uint64_t>(row * columns + k), 0, seed);
  float sum = -2.0f;
  for (const std::uint32_t word : words.word) {
    sum = sum + static_cast<float>(word >> 8) * 0x1p-24f;
  }
  return sum * (k % 97 == 5 ? 27.7f : 1.73f);
}

/// fp8 operands fill the format to about an eighth of its range before the outliers.
MXO_HD inline E4M3 product_operand_e4m3(std::uint64_t seed, Index row, Index k, Index columns) {
  return encode<kE4M3>(product_operand(seed, row, k, columns) * 16.0f, Overflow::saturate);
}
MXO_HD inline BF16 product_operand_bf16(std::uint64_t seed, Index row, Index k, Index columns) {
  return encode<kBF16>(product_operand(seed, row, k, columns));
}

/// x of a product has seed s, w has s + 1.  The i-th of `samples` rows spread over `extent`.
MXO_HD constexpr Index sampled_row(Index i, Index samples, Index extent) {
  return samples > 1 ? i * (extent - 1) / (samples - 1) : 0;
}
inline constexpr Index kProductSamples = 8;

}  // namespace mxo::capture
