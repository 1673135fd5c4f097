// Which other codes a right quantiser may give: those across a tie.
#include "golden/judge/tied_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/minifloat.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// The bound admits a code where x is no more than 2 u |x| beyond the middle, u = 2^-24.
constexpr double kSurelyWithin = 1.9 * 0x1p-24;
constexpr double kSurelyBeyond = 2.1 * 0x1p-24;
/// More than what three roundings of f32 do to a quotient, and what the bound admits.
constexpr double kMargin = 0x1p-20;

}  // namespace

TiedCodes::TiedCodes(Dtype format, Dtype elements, bool divides)
    : elements_(elements), divides_(divides) {
  const ElementReader read(format);
  for (std::uint64_t code = 0; code < cells_.size(); ++code) {
    const double value = read(code).value;
    Cell& cell = cells_[code];
    cell = {std::isfinite(value) ? value : kNaN, {}};
    double least = kInfinity;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const double other = read((side == 0 ? code - 1 : code + 1) & 0xFF).value;
      const double gap = std::fabs(other - value);
      cell.neighbours[side] = {std::isfinite(gap) ? other : kNaN, (value + other) / 2, gap};
      if (std::isfinite(gap)) least = std::min(least, gap);
    }
    // Further away 4 u |x| alone may reach a neighbour.
    double low = -0x1p16 * least;
    double high = 0x1p16 * least;
    for (const Neighbour& beside : cell.neighbours) {
      if (std::isnan(beside.value)) continue;
      const double margin = kMargin * std::fabs(beside.middle);
      if (beside.value > value) high = std::min(high, beside.middle - margin);
      if (beside.value < value) low = std::max(low, beside.middle + margin);
    }
    clear_[code] = {static_cast<float>(low), static_cast<float>(high)};
    if (std::isnan(cell.value)) clear_[code] = {0, 0};
  }
}

/// Of one element near a middle.
std::optional<double> TiedCodes::distance(const Cell& cell, double x, double scale) const {
  const double quotient = divides_ ? x * scale : x / scale;
  if (!std::isfinite(quotient) || std::isnan(cell.value)) return std::nullopt;
  const double size = std::fabs(quotient);
  double most = 0;
  for (const Neighbour& beside : cell.neighbours) {
    if (std::isnan(beside.value)) continue;
    const double beyond =
        beside.value > cell.value ? quotient - beside.middle : beside.middle - quotient;
    if (beyond >= -kSurelyWithin * size) {
      most = std::max(most, std::fabs(scaled(beside.value, scale) - scaled(cell.value, scale)));
    } else if (beyond > -kSurelyBeyond * size || beside.gap < 2 * kSurelyBeyond * size) {
      return std::nullopt;
    }
  }
  return most;
}

template <typename Load>
std::optional<double> TiedCodes::sum(const CodedRun& run, const Load& load) const {
  const auto factor = static_cast<float>(divides_ ? run.scale : 1 / run.scale);
  double total = 0;
  for (Index i = 0; i < run.count; ++i) {
    const auto code = static_cast<std::size_t>(run.codes[i]);
    const float x = load(i * run.step);
    const float quotient = x * factor;
    if (clear_[code].low < quotient && quotient < clear_[code].high) continue;
    const auto away = distance(cells_[code], static_cast<double>(x), run.scale);
    if (!away) return std::nullopt;
    total += *away * *away;
  }
  return total;
}

std::optional<double> TiedCodes::squares(const CodedRun& run) const {
  const auto word = [&](auto bits, Index i) {
    std::memcpy(&bits, run.elements + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    return bits;
  };
  if (!std::isfinite(run.scale) || run.scale == 0) return std::nullopt;
  switch (elements_) {
    case Dtype::bf16:
      return sum(run, [&](Index i) { return decode(BF16{word(std::uint16_t{}, i)}); });
    case Dtype::f16:
      return sum(run, [&](Index i) { return decode(F16{word(std::uint16_t{}, i)}); });
    case Dtype::f32: return sum(run, [&](Index i) { return word(float{}, i); });
    default: return std::nullopt;
  }
}

}  // namespace mxo
