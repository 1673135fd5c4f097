// sum.split=auto: which splits of K give an output that is at hand.
#pragma once

#include <string_view>

#include "ops/catalogue.h"

namespace mxo {

/// True if the call asks for the search.  Throws Error(argument) if it gives the operand y without
/// asking, or asks without giving it.
bool wants_split_search(std::string_view op, const NamedViews& inputs, const Parameters& set);

/// Runs `call` with sum.split = 1 to 16 and compares its output `output` with the operand y; a
/// NaN is as good as another, and rows beyond the last group of a forward product are not owed.
/// Returns `splits`, i32: those that fit.
NamedTensors fitting_splits(Backend& backend, std::string_view op, const NamedViews& inputs,
                            const Parameters& set, std::string_view output,
                            NamedTensors (*call)(Backend&, std::string_view, const NamedViews&,
                                                 const Parameters&));

}  // namespace mxo
