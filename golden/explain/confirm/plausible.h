// What an altered call gives, weighed: a cause, or what another does to some elements, too.
#pragma once

#include <vector>

#include "golden/explain/confirm/bench.h"

namespace mxo {

/// Whether a trial gives something worth a closer look, in a place; the score decides.
bool worth_running(const RunResult& trial);
/// Whether a hypothesis is of a kind that cannot give what it gives and no more.
bool contradicts(const Hypothesis& hypothesis, const RunResult& trial,
                 const std::vector<Output>& outputs);

}  // namespace mxo
