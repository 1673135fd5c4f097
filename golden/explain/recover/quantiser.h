// The rule of a quantiser, inferred from pairs of value and code, and of block and scale.
#pragma once

#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/output.h"

namespace mxo {

/// Claims about an operator that makes codes and scales of x.  Scales that came are taken as they
/// are where codes are explained: each of the two is judged by itself.
std::vector<Claim> recover_quantiser(const Call& call, std::vector<Output>& outputs);

}  // namespace mxo
