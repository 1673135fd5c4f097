// Altered calls, run where the output fails: what fits is confirmed, placed and settled.
#pragma once

#include "golden/explain/claim.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/output.h"
#include "golden/judge/progress.h"

namespace mxo {

/// Runs every hypothesis, alone and then in pairs, on the elements that are left, and settles
/// what the best ones explain.
std::vector<Claim> search(Backend& backend, const Call& call, std::vector<Output>& outputs,
                          std::vector<Hypothesis> list, const Progress& progress);

}  // namespace mxo
