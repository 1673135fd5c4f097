// What an altered call gives, weighed: a cause, or what another does to some elements, too.
#pragma once

#include <vector>

#include "golden/explain/bench.h"

namespace mxo {

/// Whether a trial gives something worth a closer look, in a place; the score decides.
bool promising(const Trial& trial);
/// Whether a hypothesis is of a kind that cannot give what it gives and no more.
bool cannot_be(const Hypothesis& hypothesis, const Trial& trial,
               const std::vector<Output>& outputs);

}  // namespace mxo
