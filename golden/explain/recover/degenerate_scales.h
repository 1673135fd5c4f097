// Scales that are made of no amax: one for all blocks, and those of blocks that are all zero.
#pragma once

#include <optional>
#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/output.h"
#include "golden/explain/recover/scale_rule.h"

namespace mxo {

/// One scale for every block where several are expected: 1, or a number that the rule gives for no
/// amax of the whole tensor.
std::optional<Claim> claim_one_scale(Output& scales, const std::vector<float>& amax,
                                     const ScaleRuleFound* rule);

/// The same in a part of the rows: 1, where the amax of the whole tensor gives that, too
/// (`of_whole`), or a number that it does not give.
std::optional<Claim> claim_one_scale_in_part(Output& scales, const std::vector<float>& amax,
                                             const ScaleRuleFound& rule, bool of_whole);

/// Blocks of x that are all zero, where all of these and no others have codes that are NaN, or
/// scales that are wrong.
std::vector<Claim> recover_zero_blocks(const Call& call, std::vector<Output>& outputs);

}  // namespace mxo
