// sum.split=auto: which splits of K reproduce a given output.
#pragma once

#include <string_view>

#include "ops/catalogue.h"

namespace mxo {

/// True if the call asks for the search.  Throws Error(argument) if it gives the operand y without
/// asking, or asks without giving it.
bool wants_split_search(std::string_view op, const NamedViews& inputs, const Parameters& set);

/// Runs `call` with sum.split = 1 to 16 and compares its output `output` with the operand y; a
/// NaN equals any NaN, and rows beyond the last group of a forward product are don't-care.
/// Returns `splits`, i32: those that match.
NamedTensors fitting_splits(Backend& backend, std::string_view op, const NamedViews& inputs,
                            const Parameters& set, std::string_view output,
                            NamedTensors (*call)(Backend&, std::string_view, const NamedViews&,
                                                 const Parameters&));

}  // namespace mxo
