// An output times a number of each row and one of each column.
#include <set>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastLines = 4;  ///< with numbers of their own

/// Whether each element of rows [first, end) is multiplied by a number of its row and one of its
/// column, both of several values.
bool is_by_row_and_column(const Output& o, Index first, Index end) {
  const double near = size_of(o.expected->dtype()) == 4 ? 0x1p-12 : 0x1p-5;
  const auto log_factor = [&](Index r, Index c) {  // no number where there is no factor
    const Index i = r * o.columns + c;
    return std::log2(o.came(i).value / o.wanted(i).value);
  };
  std::set<Index> rows;
  std::set<Index> columns;
  for (Index r = first; r < end; ++r) {
    const double in_row = log_factor(r, 0) - log_factor(first, 0);
    for (Index c = 0; c < o.columns; ++c) {
      const double in_column = log_factor(first, c);
      if (!(std::abs(log_factor(r, c) - in_row - in_column) <= near)) return false;
      rows.insert(std::lround(in_row / near));
      columns.insert(std::lround(in_column / near));
    }
  }
  return rows.size() >= kLeastLines && columns.size() >= kLeastLines;
}

}  // namespace

void claim_by_row_and_column(Output& output, Claims& claims) {
  Index first = 0;
  std::vector<Index> ends = output.ends;
  if (ends.empty() || output.group != "group") ends = {output.compared_rows};
  for (const Index end : ends) {
    if (end > first && !is_by_row_and_column(output, first, end)) return;
    first = std::max(first, end);
  }
  append(claims,
         claim_all(output, {"value.factors", FindingKind::look},
                   output.name + ": every value is multiplied by a factor of its row and by "
                                 "one of its column"));
}

}  // namespace mxo
