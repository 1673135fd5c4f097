// Pieces of rows that hold what is expected elsewhere, as causes in words.
#include "golden/explain/recover/pieces.h"

#include <cstdlib>
#include <utility>

namespace mxo {

Claim claim_of_pieces(const Output& output, const std::vector<Index>& pieces, Index width,
                      std::string id, const std::function<std::string(const Place&)>& what) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(output.rows));
  std::vector<std::uint8_t> column(static_cast<std::size_t>(output.columns));
  Index elements = 0;
  for (const Index at : pieces) {
    row[static_cast<std::size_t>(at / output.columns)] = 1;
    for (Index i = 0; i < width; ++i) {
      column[static_cast<std::size_t>(at % output.columns + i)] = 1;
      elements += output.marks[static_cast<std::size_t>(at + i)] == Mark::differs;
    }
  }
  const Place place = place_of(output, marked(row), marked(column));
  Claim claim;
  claim.id = std::move(id);
  claim.yields = true;
  claim.sentence = place.words + what(place);
  claim.where = place.where;
  claim.elements = static_cast<double>(elements);
  return claim;
}

std::string distance_in_words(const Output& output, Index by, const Place& place) {
  const std::string hold(place.hold());
  const char* side = by < 0 ? "before" : "after";
  const Index far = std::abs(by);
  if (far % output.columns != 0)
    return hold + "what is expected " + std::to_string(far) + " elements " + side;
  const Index rows = far / output.columns;
  const std::string distance = std::to_string(rows) + " " + side;
  if (place.one()) return hold + "the row " + distance + " it";
  return rows == 1 ? " each" + hold + "the row " + distance
                   : hold + "the rows " + distance + " them";
}

}  // namespace mxo
