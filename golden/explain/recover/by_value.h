// Differences grouped by what was read: operand codes and scale bytes, wherever they lie.
#pragma once

#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/output.h"

namespace mxo {

/// Codes or scale bytes of a dequantised tensor that are read as another number, each the same
/// wherever it stands, while all others are right.
std::vector<Claim> recover_by_value(const Call& call, Output& x);

/// Codes or scale bytes of one side of a product that may have been read as NaN: every line with
/// one of them came as NaN, and no other.
void add_bytes_as_nan(const Call& call, const Output& y, std::vector<Hypothesis>& list);

/// Codes of one side of a product that are read as other numbers, measured.
void add_decoded_codes(const Call& call, const Output& y, std::vector<Hypothesis>& list);

/// "exactly the blocks with an amax below ... differ" of a quantiser; empty if they are told apart
/// by no magnitude.
std::string magnitudes_seen(const Call& call, const std::vector<Output>& outputs);

}  // namespace mxo
