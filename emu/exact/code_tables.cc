// Tables made once from the formats.
#include "emu/exact/code_tables.h"

#include <algorithm>
#include <array>
#include <cmath>

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

Bf16Table words_of(Dtype dtype) {
  Bf16Table table = {};
  static_cast<CodeFormat&>(table) = code_format(dtype);
  for (int code = 0; code <= table.max_finite; ++code) {
    const auto bits = bit_cast<std::uint32_t>(code_values(dtype)[code]);
    table.words[code] = static_cast<std::uint16_t>(bits >> 16);
  }
  return table;
}

SliceTable slices_of(Dtype dtype) {
  const float* values = code_values(dtype);
  SliceTable table = {};
  static_cast<CodeFormat&>(table) = code_format(dtype);
  const double max_magnitude = values[table.max_finite];
  table.unit = std::ilogb(max_magnitude) + 1 - 15;
  for (int shift = 0; shift <= kMaxSpread; ++shift) {
    ShiftedSlices& to = table.shifted[shift];
    std::fill(to.lowered, to.lowered + kMxBlock, shift << table.mantissa_bits);
    for (int code = 0; code <= table.max_finite; ++code) {
      const double value = std::ldexp(static_cast<double>(values[code]), -shift);
      const double scaled = std::ldexp(value, -table.unit);
      const auto integer = static_cast<unsigned>(scaled);
      to.high[code] = static_cast<std::uint8_t>(integer >> 8);
      to.low[code] = static_cast<std::uint8_t>(integer & 0xFFu);
      if (scaled != static_cast<double>(integer)) {
        to.residual_below = static_cast<std::uint8_t>(code + 1);
      }
    }
  }
  const ShiftedSlices& top = table.shifted[0];
  // Low bytes: 11 or 12 places lie between the least integer and the greatest, the lowest eight of
  // them have one.  With three bits of mantissa that is 64 magnitudes, from 32 on.
  table.low_offset = table.mantissa_bits == 3 ? 32 : 0;
  for (int i = 0; i < 64; ++i) {
    table.high[i] = top.high[64 + i];
    table.low[i] = top.low[64 + i - table.low_offset];
  }
  return table;
}

/// The row of a format among tables of all.
template <typename Table>
const Table& row_of(const Table (&tables)[4], Dtype dtype) {
  switch (dtype) {
    case Dtype::e4m3: return tables[0];
    case Dtype::e4m3fnuz: return tables[1];
    case Dtype::e5m2: return tables[2];
    default: return tables[3];
  }
}

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

const Bf16Table& bf16_table(Dtype dtype) {
  static const Bf16Table tables[] = {words_of(Dtype::e4m3), words_of(Dtype::e4m3fnuz),
                                     words_of(Dtype::e5m2), words_of(Dtype::e5m2fnuz)};
  return row_of(tables, dtype);
}

const SliceTable& slice_table(Dtype dtype) {
  static const SliceTable tables[] = {slices_of(Dtype::e4m3), slices_of(Dtype::e4m3fnuz),
                                      slices_of(Dtype::e5m2), slices_of(Dtype::e5m2fnuz)};
  return row_of(tables, dtype);
}

}  // namespace mxo::cpu
