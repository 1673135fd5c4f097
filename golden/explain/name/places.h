// Where elements lie, in words: groups, rows, columns, blocks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "golden/explain/output.h"

namespace mxo {

/// A place in an output.  Ranges are written "0-3, 7"; an empty one says nothing.
struct Where {
  std::string tensor;
  std::string groups;
  std::string rows;
  std::string columns;
  std::string blocks;
};

/// "28-31, 60"; "r mod 128 in 96-127" where that is shorter; the first and last of many.
std::string ranges(const std::vector<Index>& sorted);
/// The same for a sentence: "rows 28 to 31 and 60".
std::string ranges_in_words(std::string_view noun, const std::vector<Index>& sorted);
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

/// The place of the elements that `holds`, or an empty one if there are none.
Place place_of(const Output& output, const std::function<bool(Index)>& holds);
/// The place of whole rows and columns.
Place place_of(const Output& output, std::vector<Index> rows, std::vector<Index> columns);

}  // namespace mxo
