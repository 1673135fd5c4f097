// Which other codes a right quantiser may give: those across a tie.
#include "golden/judge/tied_codes.h"

#include <algorithm>
#include <bit>
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
/// More than what a few doubles lose by rounding.
constexpr double kRounded = 0x1p-48;

/// `read` of what loads element i.
template <typename Read>
auto visit(const Tensor& elements, const Read& read) {
  const auto word = [data = elements.data()](auto bits, Index i) {
    std::memcpy(&bits, data + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    return bits;
  };
  switch (elements.dtype()) {
    case Dtype::bf16: return read([&](Index i) { return decode(BF16{word(std::uint16_t{}, i)}); });
    case Dtype::f16: return read([&](Index i) { return decode(F16{word(std::uint16_t{}, i)}); });
    default: return read([&](Index i) { return word(float{}, i); });
  }
}

}  // namespace

TiedCodes::TiedCodes(Dtype format, const Tensor& elements, bool turned, bool divides)
    : elements_(elements), divides_(divides) {
  if (turned) {
    rows_ = elements.extent(1);
    columns_ = elements.extent(0);
  }
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

Index TiedCodes::element_of(Index at) const {
  return turned() ? at % columns_ * rows_ + at / columns_ : at;
}

/// Of one element near a middle.
std::optional<double> TiedCodes::distance(const Cell& cell, double x, const Unit& unit) const {
  const double quotient = unit.inverse != 0 ? x * unit.inverse : x / unit.scale;
  if (!std::isfinite(quotient) || std::isnan(cell.value)) return std::nullopt;
  const double size = std::fabs(quotient);
  double most = 0;
  for (const Neighbour& beside : cell.neighbours) {
    if (std::isnan(beside.value)) continue;
    const double beyond =
        beside.value > cell.value ? quotient - beside.middle : beside.middle - quotient;
    if (beyond >= -kSurelyWithin * size) {
      most = std::max(most,
                      std::fabs(scaled(beside.value, unit.scale) - scaled(cell.value, unit.scale)));
    } else if (beyond > -kSurelyBeyond * size || beside.gap < 2 * kSurelyBeyond * size) {
      return std::nullopt;
    }
  }
  return most;
}

template <typename Load>
std::optional<double> TiedCodes::sum(const Run& run, const Load& load) const {
  // 1 / a power of two is exact.
  const bool power = (std::bit_cast<std::uint64_t>(run.scale) << 12) == 0;
  const Unit unit{run.scale, divides_ ? run.scale : power ? 1 / run.scale : 0};
  const auto factor = static_cast<float>(divides_ ? run.scale : 1 / run.scale);
  const Index first = element_of(run.at);
  double total = 0;
  for (Index i = 0; i < run.count; ++i) {
    const auto code = static_cast<std::size_t>(run.codes[i]);
    const float x = load(first + i * rows_);
    const float quotient = x * factor;
    if (clear_[code].low < quotient && quotient < clear_[code].high) continue;
    const auto away = distance(cells_[code], static_cast<double>(x), unit);
    if (!away) return std::nullopt;
    total += *away * *away;
  }
  return total;
}

std::optional<double> TiedCodes::squares(const Run& run) const {
  if (!std::isfinite(run.scale) || run.scale == 0) return std::nullopt;
  return visit(elements_, [&](const auto& load) { return sum(run, load); });
}

std::optional<bool> TiedCodes::admits(Index at, double expected, double actual) const {
  const double x = visit(elements_, [&](const auto& load) { return double{load(element_of(at))}; });
  const double away = std::fabs(actual - x);
  const double most = std::fabs(expected - x) + 0x1p-22 * std::fabs(x);
  if (!(std::fabs(away - most) > kRounded * (away + most))) return std::nullopt;
  return away < most;
}

}  // namespace mxo
