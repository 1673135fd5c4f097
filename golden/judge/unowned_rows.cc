// What lies past the last group: never judged, always said.
#include "golden/judge/unowned_rows.h"

#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// What is there in positions [first, columns) of each row from `row` on.
std::string_view held(const Tensor& actual, Dtype format, Index row, Index first) {
  const ElementReader read(format);
  const Index columns = actual.shape().back();
  bool zeros = true;
  for (Index i = row * columns; i < actual.elements(); ++i) {
    if (i % columns < first) continue;
    const std::uint64_t bits = bits_at(actual, i);
    if (read(bits).nan) return "NaN";
    zeros = zeros && bits == 0;
  }
  return zeros ? "zeros" : "numbers";
}

std::string sentence(std::string_view what, Index first, Index end, std::string_view holds) {
  const bool one = first + 1 == end;
  std::string text(what);
  text += (one ? " " : "s ") + std::to_string(first);
  if (!one) text += " to " + std::to_string(end - 1);
  text += one ? " belongs to no group and holds " : " belong to no group and hold ";
  return text.append(holds) + ": not compared";
}

}  // namespace

std::string unowned_rows(const Groups& groups, const Tensor& actual, Dtype format) {
  if (actual.rank() == 0 || actual.elements() == 0) return {};
  const Index rows = actual.extent(0);
  const Index columns = actual.shape().back();
  if (groups.compared_rows >= 0 && groups.compared_rows < rows) {
    const Index row = actual.elements() / columns / rows * groups.compared_rows;
    return sentence("row", groups.compared_rows, rows, held(actual, format, row, 0));
  }
  if (groups.compared_columns >= 0 && groups.compared_columns < columns) {
    return sentence("column", groups.compared_columns, columns,
                    held(actual, format, 0, groups.compared_columns));
  }
  return {};
}

}  // namespace mxo
