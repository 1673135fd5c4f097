// Values of the finite codes, and the nearest of them.
#include "tests/support/searched_code.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/plain_values.h"

namespace mxo::test {
namespace {

/// Values of the codes 0 to 7F that are finite, and of no other.
const std::vector<double>& values_of(Dtype format) {
  static std::vector<std::vector<double>> tables(4);
  std::vector<double>& table =
      tables[static_cast<std::size_t>(format) - static_cast<std::size_t>(Dtype::e4m3)];
  if (!table.empty()) return table;
  for (std::uint32_t code = 0; code < 128; ++code) {
    const double value = plain_value(format, code);
    if (std::isfinite(value)) table.push_back(value);
  }
  return table;
}

}  // namespace

float largest(Dtype format) { return static_cast<float>(values_of(format).back()); }

std::uint8_t searched_code(float v, Dtype format, bool saturates) {
  const bool fnuz = format == Dtype::e4m3fnuz || format == Dtype::e5m2fnuz;
  const std::uint8_t nan = fnuz ? 0x80 : 0x7F;
  if (std::isnan(v)) return nan;
  const std::vector<double>& values = values_of(format);
  const double m = std::fabs(static_cast<double>(v));
  const std::size_t last = values.size() - 1;
  const double step = values[last] - values[last - 1];
  const double overflow = values[last] + 0.5 * step;
  std::size_t code = last;
  if (m > overflow || (m == overflow && last % 2 != 0)) {
    if (!saturates && format != Dtype::e5m2) return nan;
    if (!saturates) code = 0x7C;
  } else if (m < values[last]) {
    const auto above = std::upper_bound(values.begin(), values.end(), m);
    const auto low = static_cast<std::size_t>(above - values.begin()) - 1;
    const double middle = 0.5 * (values[low] + values[low + 1]);
    code = m > middle || (m == middle && low % 2 != 0) ? low + 1 : low;
  }
  if (fnuz && code == 0) return 0;
  return static_cast<std::uint8_t>(code | (std::signbit(v) ? 0x80u : 0u));
}

}  // namespace mxo::test
