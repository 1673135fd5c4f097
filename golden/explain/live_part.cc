// Where something is left, if that is a place.
#include <algorithm>

#include "golden/explain/name/places.h"
#include "golden/explain/output.h"

namespace mxo {
namespace {

constexpr Index kLeast = 64;       ///< elements that are left
constexpr Index kLeastShare = 20;  ///< of the part, one in so many: sparse ones lie anywhere

}  // namespace

void find_live(Output& output) {
  output.live = {};
  if (output.left < kLeast) return;
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(output.rows));
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(output.columns));
  for (Index r = 0; r < output.owed; ++r) {
    if (!output.differs_in(r * output.columns, output.columns)) continue;
    rows[static_cast<std::size_t>(r)] = 1;
    for (Index c = 0; c < output.columns; ++c) {
      columns[static_cast<std::size_t>(c)] |= output.mark(r, c) == Mark::differs;
    }
  }
  const std::vector<Index> of_rows = marked(rows);
  const std::vector<Index> of_columns = marked(columns);
  const auto high = static_cast<Index>(of_rows.size());
  const auto wide = static_cast<Index>(of_columns.size());
  if (high == output.owed && wide == output.columns) return;
  if (output.left * kLeastShare < high * wide) return;
  if (!is_pattern(of_rows) || !is_pattern(of_columns)) return;
  output.live = {std::move(rows), std::move(columns)};
}

}  // namespace mxo
