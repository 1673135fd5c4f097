// What a quantiser did otherwise, and codes and scale bytes that are read as other numbers.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

// Of an operator that makes codes and scales of x.

/// Claims about its rule.  Scales that came are taken as they are where codes are explained: each
/// of the two is judged by itself.
Claims recover_quantiser(const Call& call, std::vector<Output>& outputs);
/// Blocks of x that are all zero, or nearly, where all of these and no others have codes that are
/// NaN, or scales that are wrong.
Claims recover_degenerate_blocks(const Call& call, std::vector<Output>& outputs);
/// Marks codes that are those that the rule asked for makes under the actual scales.
void mark_what_follows(const Call& call, std::vector<Output>& outputs);
/// Of a scale or two that are left their ratio, and whose amax they are; empty of more.
std::string scales_seen(const Call& call, const std::vector<Output>& outputs);
/// "these are scales of rows 92 to 95 of x", of scales in tiles; empty of most rows.
std::string rows_of_tiles_seen(const Call& call, const std::vector<Output>& outputs);
/// "exactly the blocks with an amax of ... and less differ"; empty if they are told apart by no
/// magnitude.
std::string magnitudes_seen(const Call& call, const std::vector<Output>& outputs);

// Of values without scales.

/// How codes of `encode` were rounded.
Claims recover_encoded(const Call& call, Output& codes);
/// Numbers that are bf16 by stochastic rounding.
Claims recover_random(Backend& backend, const Call& call, Output& output);

// Of an operator that reads codes and scales.

/// Codes or scale bytes of a dequantised tensor that are read as another number, each the same
/// wherever it stands, while all others are right.
Claims recover_by_value(const Call& call, Output& x);
/// Codes or scale bytes of one side of a product that may have been read as NaN: every line with
/// one of them came as NaN, and no other.
void add_bytes_as_nan(const Call& call, const Output& y, List& list);
/// Codes of one side of a product that are read as other numbers, measured.
void add_decoded_codes(const Call& call, const Output& y, List& list);

}  // namespace mxo
