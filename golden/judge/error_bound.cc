// Doubles where they tell, the exact sum where they do not.
#include "golden/judge/error_bound.h"

#include <cmath>

#include "golden/judge/rounding_cell.h"

namespace mxo {
namespace {

/// Whether the real result lies at most `stray` on the wrong side of `end`; `way` is 1 where it
/// has to lie above.
bool reaches(const ErrorBound& bound, Index i, double end, double way) {
  const auto at = static_cast<std::size_t>(i);
  if (std::isinf(end)) return way * end < 0;
  const double exact = bound.exact[at];
  const double stray = bound.stray[at];
  const double beyond = way * (exact - end) + stray;
  const double open =
      bound.doubt[at] + 0x1p-51 * (std::fabs(exact) + std::fabs(end) + stray + bound.doubt[at]);
  if (std::fabs(beyond) > open) return beyond > 0;
  if (!bound.terms) return true;
  ExactTerms sum;
  bound.terms(i, sum);
  sum.add(-end);
  sum.add(way * stray);
  return way * sum.sign() >= 0;
}

}  // namespace

bool ErrorBound::promises(Index i) const { return !std::isinf(stray[static_cast<std::size_t>(i)]); }

bool ErrorBound::admits(Index i, Dtype out, double value) const {
  if (std::isnan(value) || std::isnan(exact[static_cast<std::size_t>(i)])) return false;
  if (!promises(i)) return true;
  const RoundingCell cell = rounding_cell(out, value);
  return reaches(*this, i, cell.low, 1) && reaches(*this, i, cell.high, -1);
}

}  // namespace mxo
