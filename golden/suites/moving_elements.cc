// Runs of rows and columns, and the tiles that they fill.
#include "golden/suites/moving_elements.h"

#include <algorithm>
#include <set>

namespace mxo {
namespace {

std::string one_or_run(const char* what, Index first, Index last) {
  if (first == last) return std::string(what) + " " + std::to_string(first);
  return std::string(what) + "s " + std::to_string(first) + " to " + std::to_string(last);
}

/// "columns 128 to 255", "12 columns between 3 and 90", "columns 0, 32, .., 96 (every 32nd)".
std::string axis_in_words(const char* what, const std::set<Index>& at, Index extent) {
  const Index first = *at.begin();
  const Index last = *at.rbegin();
  const auto count = static_cast<Index>(at.size());
  if (count == extent && extent > 1) return std::string("every ") + what;
  if (count == last - first + 1) return one_or_run(what, first, last);
  const Index step = *std::next(at.begin()) - first;
  if (count > 2 && (last - first) % step == 0 && count == (last - first) / step + 1) {
    return "every " + std::to_string(step) + " " + what + "s from " + std::to_string(first) +
           " to " + std::to_string(last);
  }
  return std::to_string(count) + " " + what + "s between " + std::to_string(first) + " and " +
         std::to_string(last);
}

/// The one tile of that many neighbours that holds all of them; -1 if there is none.
Index only_tile(const std::set<Index>& at, Index tile) {
  return *at.begin() / tile == *at.rbegin() / tile ? *at.begin() / tile : -1;
}

/// " (all in one tile of 128 columns)": the smallest usual one, of an axis that has several.
std::string tile_in_words(const char* what, const std::set<Index>& at, Index extent) {
  for (const Index tile : {Index{16}, Index{32}, Index{64}, Index{128}, Index{256}}) {
    if (at.size() < 2 || tile >= extent || only_tile(at, tile) < 0) continue;
    return " (in one tile of " + std::to_string(tile) + " " + what + "s)";
  }
  return {};
}

}  // namespace

std::string place_in_words(const std::vector<Index>& moving, Index rows, Index columns) {
  std::set<Index> in_rows;
  std::set<Index> in_columns;
  for (const Index i : moving) {
    in_rows.insert(i / columns);
    in_columns.insert(i % columns);
  }
  return axis_in_words("row", in_rows, rows) + tile_in_words("row", in_rows, rows) + ", " +
         axis_in_words("column", in_columns, columns) +
         tile_in_words("column", in_columns, columns);
}

}  // namespace mxo
