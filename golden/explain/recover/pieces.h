// Pieces of rows that hold what is expected elsewhere, as causes in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/output.h"

namespace mxo {

/// `width` elements from each of `pieces` on: where they lie, and what() of that place.
Claim claim_of_pieces(const Output& output, const std::vector<Index>& pieces, Index width,
                      std::string id, const std::function<std::string(const Place&)>& what);

/// " hold the rows 4 before them": what lies at `place` is expected `by` elements further on.
std::string distance_in_words(const Output& output, Index by, const Place& place);

}  // namespace mxo
