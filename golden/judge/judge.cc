// One position of one tensor: is it owed, is it what is expected, does the gate let it pass?
#include "golden/judge/judge.h"

#include <algorithm>
#include <cmath>

#include "golden/judge/measures.h"

namespace mxo {

bool Judge::is_owed(Index row, Index i) const {
  if (owed_.groups.owed_rows >= 0 && row >= owed_.groups.owed_rows) return false;
  return owed_.mask == nullptr || bits_at(*owed_.mask, i) == 0;
}

Judge::Finding Judge::at(Index i) const {
  const std::uint64_t want = bits_at(*owed_.expected, i);
  const std::uint64_t have = bits_at(actual_, i);
  Finding found{read_(want), read_(have), false, false};
  found.differs = owed_.expectation.kind == Expectation::Kind::interval ? !within(i, found.actual)
                                                                        : !same(want, have, found);
  found.violates = found.differs && refused(i, found);
  return found;
}

bool Judge::same(std::uint64_t want, std::uint64_t have, const Finding& found) const {
  if (want == have) return true;
  if (found.expected.nan && found.actual.nan && options_.nan == NanCompare::as_class) return true;
  for (const auto& list : owed_.expectation.any_of) {
    if (std::find(list.begin(), list.end(), want) != list.end() &&
        std::find(list.begin(), list.end(), have) != list.end()) {
      return true;
    }
  }
  return false;
}

bool Judge::within(Index i, const Element& actual) const {
  const Element lo = read_(bits_at(*owed_.lo, i));
  const Element hi = read_(bits_at(*owed_.hi, i));
  if (actual.nan) return lo.nan && hi.nan;
  return lo.value <= actual.value && actual.value <= hi.value;
}

bool Judge::refused(Index i, const Finding& found) const {
  if (owed_.expectation.kind == Expectation::Kind::interval) return true;
  const bool nan_differs = found.expected.nan || found.actual.nan;
  switch (options_.gate.kind) {
    case Gate::Kind::bits: return true;
    case Gate::Kind::ulp:
      return nan_differs ||
             ulp_distance(found.expected.order, found.actual.order) > options_.gate.ulp;
    case Gate::Kind::sqnr: return nan_differs || infinity_differs(found.expected, found.actual);
    case Gate::Kind::bound: {
      if (owed_.bound == nullptr || nan_differs) return true;
      const auto at = static_cast<std::size_t>(i);
      const double error = std::fabs(found.actual.value - owed_.bound->exact[at]);
      return !(error <= owed_.bound->allowed[at]);
    }
  }
  return true;
}

}  // namespace mxo
