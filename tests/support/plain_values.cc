// The value of a stored code, told by its definition and not by the library's codec.
#include "tests/support/plain_values.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace mxo::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double sign_exponent_fraction(std::uint32_t bits, int exponent_bits, int fraction_bits, int bias) {
  const auto fraction = static_cast<int>(bits & ((1u << fraction_bits) - 1));
  const auto field = static_cast<int>((bits >> fraction_bits) & ((1u << exponent_bits) - 1));
  const bool negative = (bits >> (fraction_bits + exponent_bits)) != 0;
  const int significand = field == 0 ? fraction : fraction + (1 << fraction_bits);
  const double value = std::ldexp(significand, (field == 0 ? 1 : field) - bias - fraction_bits);
  return negative ? -value : value;
}

}  // namespace

double plain_value(Dtype dtype, std::uint32_t bits) {
  switch (dtype) {
    case Dtype::f32: return static_cast<double>(std::bit_cast<float>(bits));
    case Dtype::bf16: return static_cast<double>(std::bit_cast<float>(bits << 16));
    case Dtype::f16:
      if ((bits & 0x7FFF) > 0x7C00) return kNan;
      if ((bits & 0x7FFF) == 0x7C00) return bits == 0x7C00 ? kInfinity : -kInfinity;
      return sign_exponent_fraction(bits, 5, 10, 15);
    case Dtype::e8m0: return bits == 0xFF ? kNan : std::ldexp(1.0, static_cast<int>(bits) - 127);
    case Dtype::e4m3: return (bits & 0x7F) == 0x7F ? kNan : sign_exponent_fraction(bits, 4, 3, 7);
    case Dtype::e4m3fnuz: return bits == 0x80 ? kNan : sign_exponent_fraction(bits, 4, 3, 8);
    case Dtype::e5m2:
      if ((bits & 0x7F) > 0x7C) return kNan;
      if ((bits & 0x7F) == 0x7C) return bits == 0x7C ? kInfinity : -kInfinity;
      return sign_exponent_fraction(bits, 5, 2, 15);
    case Dtype::e5m2fnuz: return bits == 0x80 ? kNan : sign_exponent_fraction(bits, 5, 2, 16);
    default: throw std::logic_error("plain_value: no such format");
  }
}

std::uint32_t code_of(Dtype dtype, double value) {
  if (dtype == Dtype::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == Dtype::bf16) return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
  static std::map<Dtype, std::map<double, std::uint32_t>> tables;
  std::map<double, std::uint32_t>& table = tables[dtype];
  if (table.empty()) {
    const std::uint32_t codes = dtype == Dtype::f16 ? 1u << 16 : 256;
    for (std::uint32_t bits = 0; bits < codes; ++bits) {
      const double each = plain_value(dtype, bits);
      if (!std::isnan(each)) table.emplace(each, bits);  // +0 comes before -0 and stays
    }
  }
  return table.at(value);
}

}  // namespace mxo::test
