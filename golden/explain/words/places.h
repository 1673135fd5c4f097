// Where elements lie, in words: groups, rows, columns, blocks.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/explain.h"

namespace mxo {

/// "28-31, 60"; "r mod 128 in 96-127" where that is shorter; the first and last of many.
std::string ranges(const std::vector<Index>& sorted);
/// The same for a sentence: "rows 28 to 31 and 60"; of `all`, where a period may end before them.
std::string ranges_in_words(std::string_view noun, const std::vector<Index>& sorted, Index all = 0);
/// Whether ranges_in_words() names each of them: few runs, or the same of every so many.
bool is_pattern(const std::vector<Index>& sorted);
/// `sorted` with those lines between that are idle, and up to the ends of groups, if that makes few
/// runs or a pattern of them.
std::vector<Index> joined(const std::vector<Index>& sorted, const std::vector<std::uint8_t>& idle,
                          const std::vector<Index>& ends);
/// Runs of neighbours in a sorted list.
Index runs(const std::vector<Index>& sorted);

/// Elements of an output, and the rows and columns they lie in.
struct Place {
  Where where;
  std::vector<Index> rows;
  std::vector<Index> columns;
  Index elements = 0;
  /// "rows 28 to 31 of group 0", "columns 0 to 127 of row 3", "all of y".
  std::string words;
  /// That `words` are of one row, column or element.
  bool one() const;
  /// The verb after `words`.
  std::string_view hold() const { return one() ? " holds " : " hold "; }
};

/// The place of whole rows and columns.
Place place_of(const Output& output, std::vector<Index> rows, std::vector<Index> columns);
/// Indices that are marked.
std::vector<Index> marked(const std::vector<std::uint8_t>& marks);

/// The place of the elements that `holds`, or an empty one if there are none.
template <typename Holds>
Place place_of(const Output& output, const Holds& holds) {
  std::vector<Index> rows;
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(output.columns));
  Index elements = 0;
  for (Index r = 0; r < output.rows; ++r) {
    const Index before = elements;
    for (Index c = 0; c < output.columns; ++c) {
      if (!holds(r * output.columns + c)) continue;
      ++elements;
      nth(seen, c) = 1;
    }
    if (elements > before) rows.push_back(r);
  }
  Place place = place_of(output, std::move(rows), marked(seen));
  place.elements = elements;
  return place;
}

/// The elements that are left, in words: where, how far, of what kind.  Empty if none are.
std::string pattern_of(const Output& output);
/// The elements that are left by their operand, where these are all of some magnitudes or of a few
/// mantissas; empty where an output has no float operand of its shape, or none tells them apart.
std::string operands_seen(const Call& call, const Output& output);

}  // namespace mxo
