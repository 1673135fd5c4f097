// Checks of a call, the same as of `run`: they come before anything reads its operands.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ops/catalogue.h"

namespace mxo {

/// Throws Error(file) "where: ..." unless `op` would take these operands and parameters, and every
/// tensor of `expected` is an output of the call with its shape and element size.  Outputs of an
/// operator that works on ranks, and of a search for a split, are not known without a run.
void validate_call(std::string_view where, std::string_view op, const NamedTensors& inputs,
                   const Parameters& parameters,
                   const std::map<std::string, const Tensor*>& expected);

}  // namespace mxo
