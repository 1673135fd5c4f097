// What lies past the last group: never judged, always said.
#include "golden/judge/unowned_rows.h"

#include "golden/judge/elements.h"

namespace mxo {

std::string unowned_rows(const Groups& groups, const Tensor& actual, Dtype format) {
  const Index rows = actual.rank() == 0 ? 0 : actual.extent(0);
  const Index first = groups.owed_rows;
  if (first < 0 || first >= rows || actual.elements() == 0) return {};
  const ElementReader read(format);
  bool nan = false;
  bool zeros = true;
  for (Index i = actual.elements() / rows * first; i < actual.elements(); ++i) {
    const std::uint64_t bits = bits_at(actual, i);
    zeros = zeros && bits == 0;
    nan = nan || read(bits).nan;
  }
  const std::string which = first + 1 == rows
                                ? "row " + std::to_string(first) + " belongs to no group and holds "
                                : "rows " + std::to_string(first) + " to " +
                                      std::to_string(rows - 1) + " belong to no group and hold ";
  return which + (nan ? "NaN" : zeros ? "zeros" : "numbers") + ": not compared";
}

}  // namespace mxo
