// Outputs of an operator of many steps, in the order of the steps.
#pragma once

#include <string_view>

#include "golden/judge/verdict.h"

namespace mxo {

/// Puts the outputs of a call of `op` in the order in which its steps make them (the catalogue's),
/// ranks of one step together, and names the first that fails in the verdict's reason.  Does
/// nothing where the operator is unknown or has one step.
void order_by_step(std::string_view op, CaseVerdict& verdict);

}  // namespace mxo
