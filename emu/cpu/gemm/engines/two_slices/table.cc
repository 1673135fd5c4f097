// The tables of magnitudes.
#include <algorithm>
#include <cmath>

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
#include "emu/cpu/gemm/pack/codes.h"

namespace mxo::cpu {
namespace {

SliceTable make_table(Dtype dtype) {
  const float* values = code_values(dtype);
  SliceTable table = {};
  table.nan_minus_0 = std::isnan(values[0x80]);
  table.mantissa_bits =
      visit_minifloat8(dtype, [](auto tag) { return decltype(tag)::type::spec.mantissa_bits; });
  table.max_finite = 0x7F;
  while (!std::isfinite(values[table.max_finite])) --table.max_finite;
  const double max_magnitude = values[table.max_finite];
  table.unit = std::ilogb(max_magnitude) + 1 - 15;
  for (int shift = 0; shift <= kMaxSpread; ++shift) {
    ShiftedSlices& to = table.shifted[shift];
    std::fill(to.lowered, to.lowered + kBlock, shift << table.mantissa_bits);
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

}  // namespace

const SliceTable& slice_table(Dtype dtype) {
  static const SliceTable tables[] = {make_table(Dtype::e4m3), make_table(Dtype::e4m3fnuz),
                                      make_table(Dtype::e5m2), make_table(Dtype::e5m2fnuz)};
  switch (dtype) {
    case Dtype::e4m3: return tables[0];
    case Dtype::e4m3fnuz: return tables[1];
    case Dtype::e5m2: return tables[2];
    default: return tables[3];
  }
}

}  // namespace mxo::cpu
