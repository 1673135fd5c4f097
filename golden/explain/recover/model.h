// A model of an output, element by element, and the part of the output that it gives.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "golden/explain/claim.h"

namespace mxo {

/// The bits of element i under some cause.
using ElementModel = std::function<std::uint64_t(Index)>;

/// What the model explains: everything that differs, if it gives every element; else whole rows
/// in which it does, if they are few runs.  Settles them.  Nothing below `least` elements.
/// `phrase` follows the place: "all of y ... are transposed".
std::optional<Claim> claim_model(Output& output, const ElementModel& model, const std::string& id,
                                 const std::string& phrase, Index least = 2);

}  // namespace mxo
