// The rule of a quantiser, inferred from pairs of value and code, and of block and scale.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/output.h"

namespace mxo {

/// Claims about an operator that makes codes and scales of x.  Scales that came are taken as they
/// are where codes are explained: each of the two is judged by itself.
std::vector<Claim> recover_quantiser(const Call& call, std::vector<Output>& outputs);

/// Of a scale or two that are left their ratio, and whose amax they are; empty of more.
std::string scales_seen(const Call& call, const std::vector<Output>& outputs);
/// Marks codes that are those that the rule asked for makes under the scales that came.
void mark_what_follows(const Call& call, std::vector<Output>& outputs);

}  // namespace mxo
