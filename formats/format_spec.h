// What distinguishes one small float from another, as plain values.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

/// Which codes are given up for values that are not finite.
enum class Special : std::uint8_t {
  ieee,          ///< all-ones exponent: infinities and NaNs (e5m2, bf16, f16)
  nan_all_ones,  ///< only S.1111.111 is NaN, no infinity (OCP e4m3)
  nan_minus_0,   ///< only the code of -0 is NaN, no infinity, no -0 (fnuz)
};

/// A signed binary float of at most 16 bits.  Equal specs mean equal bytes.
struct FormatSpec {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Special special;

  MXO_HD constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  MXO_HD constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
  /// Exponent of the smallest normal value, 2^min_exponent.
  MXO_HD constexpr int min_exponent() const { return 1 - bias; }
  /// Exponent of the smallest subnormal, 2^quantum_exponent; every value is a multiple of it.
  MXO_HD constexpr int quantum_exponent() const { return min_exponent() - mantissa_bits; }

  /// The largest code whose value is finite, sign bit clear.
  MXO_HD constexpr int max_finite() const {
    const int all_ones = (1 << sign_shift()) - 1;
    if (special == Special::ieee) return all_ones - (1 << mantissa_bits);
    return special == Special::nan_all_ones ? all_ones - 1 : all_ones;
  }
  /// floor(log2(largest finite value)).
  MXO_HD constexpr int max_exponent() const { return (max_finite() >> mantissa_bits) - bias; }

  friend constexpr bool operator==(const FormatSpec&, const FormatSpec&) = default;
};

// OCP 8-bit Floating Point Specification (OFP8) v1.0, section 5, table 1.
inline constexpr FormatSpec kE4M3{4, 3, 7, Special::nan_all_ones};
inline constexpr FormatSpec kE5M2{5, 2, 15, Special::ieee};
// arXiv:2206.02915 (the encoding AMD CDNA3 implements).
inline constexpr FormatSpec kE4M3Fnuz{4, 3, 8, Special::nan_minus_0};
inline constexpr FormatSpec kE5M2Fnuz{5, 2, 16, Special::nan_minus_0};
// IEEE 754-2019, 3.6 (binary16); bfloat16 is binary32 cut to its upper half.
inline constexpr FormatSpec kF16{5, 10, 15, Special::ieee};
inline constexpr FormatSpec kBF16{8, 7, 127, Special::ieee};

static_assert(kE4M3.max_finite() == 0x7E);      // 448
static_assert(kE5M2.max_finite() == 0x7B);      // 57344
static_assert(kE4M3Fnuz.max_finite() == 0x7F);  // 240
static_assert(kE5M2Fnuz.max_finite() == 0x7F);  // 57344
static_assert(kE4M3.max_exponent() == 8 && kE4M3Fnuz.max_exponent() == 7);

}  // namespace mxo
