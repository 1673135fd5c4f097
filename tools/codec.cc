// The formats as run-time data.
#include "tools/codec.h"

#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/mx_scale.h"
#include "formats/nearest_name.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

template <FormatSpec S>
double value_of(std::uint32_t code) {
  return decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(code)});
}

template <FormatSpec S>
std::uint32_t code_of(float value, Overflow overflow) {
  return encode<S>(value, overflow, NanSign::of_operand).bits;
}

template <FormatSpec S>
constexpr Codec codec(std::string_view name) {
  return {name,
          S.exponent_bits,
          S.mantissa_bits,
          S.bias,
          true,
          static_cast<std::uint32_t>(S.max_finite()),
          value_of<S>,
          code_of<S>};
}

double e8m0_value(std::uint32_t code) { return decode(E8M0{static_cast<std::uint8_t>(code)}); }
std::uint32_t e8m0_code(float value, Overflow overflow) {
  return encode_e8m0(value, E8M0Rounding::nearest, overflow == Overflow::saturate).bits;
}
double f32_value(std::uint32_t code) { return bit_cast<float>(code); }
std::uint32_t f32_code(float value, Overflow overflow) {
  const auto word = bit_cast<std::uint32_t>(value);
  const bool infinite = (word & 0x7FFFFFFFu) == 0x7F800000u;
  return infinite && overflow == Overflow::saturate ? word - 1 : word;
}

constexpr Codec kCodecs[] = {
    codec<kE4M3>("e4m3"),
    codec<kE4M3Fnuz>("e4m3fnuz"),
    codec<kE5M2>("e5m2"),
    codec<kE5M2Fnuz>("e5m2fnuz"),
    {"e8m0", 8, 0, 127, false, 0xFE, e8m0_value, e8m0_code},
    codec<kBF16>("bf16"),
    codec<kF16>("f16"),
    {"f32", 8, 23, 127, true, 0x7F7FFFFF, f32_value, f32_code},
};

}  // namespace

std::span<const Codec> codecs() { return kCodecs; }

}  // namespace mxo::tools
