// Where some elements of a matrix lie, in the words of tiles.
#pragma once

#include <string>
#include <vector>

#include "formats/tensor_view.h"

namespace mxo {

/// `moving` are positions in a matrix of `columns`, ascending and not empty: "row 37, columns 128
/// to 255 (one tile of 128 columns)", "rows 0 to 63, every column", "8 of 96 rows, ...".
std::string place_in_words(const std::vector<Index>& moving, Index rows, Index columns);

}  // namespace mxo
