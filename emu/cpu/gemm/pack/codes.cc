// Tables of the values of codes.
#include "emu/cpu/gemm/pack/codes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "emu/exact/integer_unit.h"

namespace mxo::cpu {
namespace {

template <typename Code>
constexpr std::array<float, 256> values_of() {
  std::array<float, 256> values{};
  for (unsigned i = 0; i < 256; ++i) values[i] = decode(Code{static_cast<std::uint8_t>(i)});
  return values;
}
template <typename Code>
constexpr std::array<float, 256> kValues = values_of<Code>();

}  // namespace

const float* code_values(Dtype dtype) {
  return visit_minifloat8(dtype,
                          [](auto tag) { return kValues<typename decltype(tag)::type>.data(); });
}

CodeFormat code_format(Dtype dtype) {
  const float* values = code_values(dtype);
  CodeFormat format = visit_minifloat8(dtype, [](auto tag) {
    constexpr FormatSpec spec = decltype(tag)::type::spec;
    return CodeFormat{spec.mantissa_bits, spec.bias, 0x7F, false};
  });
  while (!std::isfinite(values[format.max_finite])) --format.max_finite;
  format.nan_minus_0 = std::isnan(values[0x80]);
  return format;
}

int quantum_of(const CodeFormat& format, int magnitude) {
  return std::max(magnitude >> format.mantissa_bits, 1) - format.bias - format.mantissa_bits;
}

}  // namespace mxo::cpu
