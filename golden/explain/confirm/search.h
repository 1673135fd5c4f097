// Altered calls, run where the output fails: what fits is confirmed, placed and explained.
#pragma once

#include "golden/explain/case/output.h"
#include "golden/explain/claim.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/progress.h"

namespace mxo {

/// A hypothesis that gives no bits, but comes nearest to them.
struct Nearest {
  std::string phrase;
  double gain_db = 0;  ///< signal to noise of it less that of what is expected
};

/// What is looked for: causes of any part, or only of everything that fails.
enum class Extent : std::uint8_t { part, all };

/// Runs every hypothesis, alone and then in pairs, on the elements that are left, and marks as
/// explained what the best ones explain.  Where they explain nothing, `nearest` is the one that
/// comes nearest.
std::vector<Claim> search(Backend& backend, const Call& call, std::vector<Output>& outputs,
                          std::vector<Hypothesis> list, const Progress& progress, Nearest& nearest,
                          Extent extent = Extent::part);

}  // namespace mxo
