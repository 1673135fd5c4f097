// The codes of the 8-bit formats as numbers: in f32, as bf16, and as integers of two slices.
#pragma once

#include <cstdint>

#include "formats/dtype.h"
#include "formats/mx_block.h"

namespace mxo::cpu {

/// An 8-bit format.
struct CodeFormat {
  int mantissa_bits;
  int bias;
  int max_finite;  ///< magnitudes above are NaN or infinite
  bool nan_minus_0;
};

/// The value of every code of an 8-bit format; NaN and infinity as they are.
const float* code_values(Dtype dtype);
CodeFormat code_format(Dtype dtype);
/// The exponent of the last place of the binade of a magnitude code.
int quantum_of(const CodeFormat& format, int magnitude);

/// The magnitudes of a format as bf16.
struct Bf16Table : CodeFormat {
  alignas(64) std::uint16_t words[128];
};
const Bf16Table& bf16_table(Dtype dtype);

/// Blocks whose scales differ by more than this keep units of their own: beyond, the residuals of
/// the small ones cost more than a flush for each block.
inline constexpr int kMaxSpread = 5;

/// The magnitudes of a format under a scale 2^shift below the greatest of the span.
struct alignas(64) ShiftedSlices {
  std::uint8_t high[128];  ///< |value| * 2^-(unit + shift), cut to an integer
  std::uint8_t low[128];
  std::uint8_t lowered[kMxBlock];  ///< shift << mantissa_bits: so much less is the exponent field
  std::uint8_t residual_below;     ///< magnitudes from here on are integers
};
struct SliceTable : CodeFormat {
  ShiftedSlices shifted[kMaxSpread + 1];
  /// A magnitude that is an integer, less `lowered`, is one of shift 0.  Of those the high byte is
  /// 0 below 64, so that six bits tell it; the low byte is 0 but for 64 neighbours, which
  /// low_offset takes to 64, and they are found by their low six bits, too.
  std::uint8_t high[64];
  std::uint8_t low[64];
  std::uint8_t low_offset;
  int unit;  ///< exponent of the integers' unit
};
const SliceTable& slice_table(Dtype dtype);

}  // namespace mxo::cpu
