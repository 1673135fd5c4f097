// The formats as run-time data: what `mxo show` and `mxo list formats` tell of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "formats/minifloat.h"

namespace mxo::tools {

/// One format.  Codes are passed in the low bits of a word; values are doubles, which hold
/// every value of every format.
struct Codec {
  std::string_view name;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_sign;
  std::uint32_t max_finite;  ///< code of the largest finite magnitude
  double (*value)(std::uint32_t code);
  std::uint32_t (*encode)(float value, Overflow overflow);

  int bits() const { return (has_sign ? 1 : 0) + exponent_bits + mantissa_bits; }
  std::uint32_t sign_bit() const { return has_sign ? 1u << (bits() - 1) : 0; }
  std::uint32_t magnitude_of(std::uint32_t code) const { return code & ~sign_bit(); }
  int digits() const { return (bits() + 3) / 4; }  ///< hex digits of a code
};

/// e4m3, e4m3fnuz, e5m2, e5m2fnuz, e8m0, bf16, f16, f32.
std::span<const Codec> codecs();

}  // namespace mxo::tools
