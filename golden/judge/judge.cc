// One position of one tensor: is it owed, is it what is expected, does the gate let it pass?
#include "golden/judge/judge.h"

#include <algorithm>
#include <cmath>

#include "golden/judge/measures.h"
#include "golden/judge/quantized_pair.h"

namespace mxo {

bool Judge::is_owed(Index row, Index i) const {
  const Groups& groups = owed_.groups;
  if (groups.owed_rows >= 0 && row >= groups.owed_rows) return false;
  if (groups.owed_columns >= 0 && i % columns_ >= groups.owed_columns) return false;
  return owed_.mask == nullptr || bits_at(*owed_.mask, i) == 0;
}

Judge::Finding Judge::at(Index i) const {
  const std::uint64_t want = bits_at(*owed_.expected, i);
  const std::uint64_t have = bits_at(actual_, i);
  Finding found{read_(want), read_(have), 0, false, false, false};
  found.differs = owed_.expectation.kind == Expectation::Kind::interval ? !within(i, found.actual)
                                                                        : !same(want, have, found);
  if (owed_.pair != nullptr) {
    const QuantizedPair::Values values = owed_.pair->at(i, found.expected, found.actual);
    found.expected = values.expected;
    found.actual = values.actual;
    found.distance = values.distance;
  } else if (!scale_) {
    found.distance = ulp_distance(found.expected.order, found.actual.order);
  }
  if (found.expected.nan || found.actual.nan) found.distance = 0;
  // Equal codes under other scales are other values.
  const bool suspect = found.differs || (owed_.pair != nullptr && by_value());
  found.violates = suspect && refused(i, found);
  found.not_bounded = options_.gate.kind == Gate::Kind::bound && owed_.bound != nullptr &&
                      !owed_.bound->promises(i);
  return found;
}

/// True under a gate that asks how far off a value is.
bool Judge::by_value() const {
  return options_.gate.kind == Gate::Kind::ulp || options_.gate.kind == Gate::Kind::sqnr;
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
  if (by_value() && owed_.by_values != nullptr && (*owed_.by_values)[static_cast<std::size_t>(i)]) {
    return false;  // seen in the values of the codes
  }
  if (by_value() && owed_.pair != nullptr && found.expected.nan && found.actual.nan) return false;
  const bool nan_differs = found.expected.nan || found.actual.nan;
  switch (options_.gate.kind) {
    case Gate::Kind::bits: return true;
    case Gate::Kind::ulp: return nan_differs || scale_ || found.distance > options_.gate.ulp;
    case Gate::Kind::sqnr:
      return nan_differs || scale_ || infinity_differs(found.expected, found.actual);
    case Gate::Kind::bound:
      return owed_.bound == nullptr || nan_differs ||
             (options_.strict && !owed_.bound->promises(i)) ||
             !owed_.bound->admits(i, owed_.format, found.actual.value);
  }
  return true;
}

}  // namespace mxo
