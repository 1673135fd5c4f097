// What an altered call gives, weighed: a cause, or what another does to some elements, too.
#pragma once

#include <vector>

#include "golden/explain/bench.h"

namespace mxo {

inline constexpr Index kLeastExplained = 8;  ///< elements that a cause must explain

/// Whether a trial gives enough, and gives it in a place.
bool promising(const Trial& trial);
/// Whether a hypothesis is of a kind that cannot give what it gives and no more.
bool cannot_be(const Hypothesis& hypothesis, const Trial& trial,
               const std::vector<Output>& outputs);

}  // namespace mxo
