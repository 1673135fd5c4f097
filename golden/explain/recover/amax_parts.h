// Scales whose amax is that of the same part of every block, of any extent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/explain/recover/own_codes.h"

namespace mxo {

/// "the first 96 of the 128 columns of its block", and the amax of that part of each block.
struct AmaxPart {
  std::string words;
  std::vector<float> amax;
};

/// The part, from one end of the rows or columns of a block, whose amax gives every scale that
/// came; of several the roundest.
std::optional<AmaxPart> amax_part_of(const Output& scales, const Blocks& blocks,
                                     const OwnCodes& own);

/// The number from `least` to `most` that is the largest part of `all`: all / 2, 3 all / 4, ...
Index roundest(Index least, Index most, Index all);

}  // namespace mxo
