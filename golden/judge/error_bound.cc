// Doubles where they tell, the exact sum where they do not.
#include "golden/judge/error_bound.h"

#include <algorithm>
#include <limits>

#include "formats/minifloat.h"
#include "golden/judge/rounding_cell.h"

namespace mxo {
namespace {

/// Whether the real result lies at most `stray` on the wrong side of `end`; `way` is 1 where it
/// has to lie above.
bool reaches(const ErrorBound& bound, Index i, const ElementBound& of, double end, double way) {
  if (std::isinf(end)) return way * end < 0;
  const double beyond = way * (of.exact - end) + of.stray;
  const double open =
      of.doubt + 0x1p-51 * (std::fabs(of.exact) + std::fabs(end) + of.stray + of.doubt);
  if (std::fabs(beyond) > open) return beyond > 0;
  if (!bound.terms) return true;
  ExactTerms sum;
  bound.terms(i, sum);
  sum.add(-end);
  sum.add(way * of.stray);
  return way * sum.sign() >= 0;
}

/// A value of type `out` beside z, from zero's side where it is none of them.
double near(Dtype out, double z) {
  const auto single = static_cast<float>(z);
  if (out == Dtype::bf16) return static_cast<double>(decode(encode<kBF16>(single)));
  if (out == Dtype::f16) return static_cast<double>(decode(encode<kF16>(single)));
  return static_cast<double>(single);
}

}  // namespace

bool ErrorBound::admits(Index i, const ElementBound& of, Dtype out, double value) const {
  if (std::isnan(value) || std::isnan(of.exact)) return false;
  if (!of.promises()) return true;
  const RoundingCell cell = rounding_cell(out, value);
  return reaches(*this, i, of, cell.low, 1) && reaches(*this, i, of, cell.high, -1);
}

ErrorBound computed(ErrorBound bound) {
  if (!bound.one) return bound;
  for (Index i = 0; i < bound.count; ++i) {
    const ElementBound of = bound.one(i);
    bound.exact.push_back(of.exact);
    bound.stray.push_back(of.stray);
    bound.doubt.push_back(of.doubt);
  }
  bound.one = {};
  return bound;
}

double allowed_distance(const ErrorBound& bound, Index i, const ElementBound& of, Dtype out,
                        double expected) {
  if (!is_wide_float(out) || std::isnan(of.exact)) return 0;
  double most = 0;
  for (const double way : {-1.0, 1.0}) {
    double value = near(out, of.exact + way * (of.stray + of.doubt));
    // A tie goes either way, and `value` may have been rounded twice: one step more is asked for.
    const RoundingCell cell = rounding_cell(out, value);
    const double beyond = way > 0 ? cell.high : cell.low;
    const double next = near(out, std::nextafter(2 * beyond - value, way * HUGE_VAL));
    if (next != value && bound.admits(i, of, out, next)) value = next;
    most = std::max(most, std::fabs(value - expected));
  }
  return most;
}

}  // namespace mxo
