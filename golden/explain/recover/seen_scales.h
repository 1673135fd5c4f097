// Of a scale or two what is seen: their ratio, and whose amax they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/recover/own_codes.h"

namespace mxo {

/// "row 3 of scales is 4 times what is expected, ..." of one or two scales that are left.
std::string seen_scales_in_words(const Output& scales, const Blocks& blocks, const OwnCodes& own);

/// The same claimed, where each is that of a part of its block.
std::optional<Claim> claim_seen_scales(Output& scales, const Blocks& blocks, const OwnCodes& own);

}  // namespace mxo
