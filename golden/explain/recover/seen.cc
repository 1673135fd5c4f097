// Measured ratios as scales.
#include "golden/explain/recover/seen.h"

#include <cmath>
#include <limits>

namespace mxo {

Index Seen::at(Index group, Index line, Index block) const {
  const Index d = block * product.block;
  return side == Side::a ? product.scale_a(group, line, d) : product.scale_b(group, line, d);
}

double Seen::value(const Effective& e, Index block) const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const Index i = at(e, block);
  if (i < 0 || !e.known(block)) return kUnknown;
  const double s = scale_value(*factor().scales, i) * e.ratio[static_cast<std::size_t>(block)];
  if (size_of(factor().scales->dtype()) != 1) return s;
  if (!(s > 0.0)) return kUnknown;
  return std::exp2(std::round(std::log2(s)));
}

std::optional<Seen::Range> Seen::range(const Effective& e, Index block) const {
  const double measured = value(e, block);
  if (std::isnan(measured)) return std::nullopt;
  if (size_of(factor().scales->dtype()) == 1) return Range{measured, measured};
  const auto b = static_cast<std::size_t>(block);
  const double ratio = std::abs(e.ratio[b]);
  const double within = std::abs(measured) * (5.0 * e.sigma[b] / ratio + 1e-4);
  return Range{measured - within, measured + within};
}

bool Seen::may_be(const Effective& e, Index block, double given) const {
  const std::optional<Range> known = range(e, block);
  return !known || known->holds(given);
}

}  // namespace mxo
