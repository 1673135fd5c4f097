// Two files of tensors, judged by what they or the caller say of the call.
#pragma once

#include <filesystem>
#include <string>

#include "golden/judge/comparator.h"
#include "golden/judge/verdict.h"
#include "ops/catalogue.h"

namespace mxo {

/// What the caller says of the call whose outputs the files hold; an empty `op`: what EXPECTED
/// says, if it says anything (a case file, or one that `mxo run` wrote).
struct CallGiven {
  std::string op;
  Parameters parameters;
  NamedTensors operands;  ///< beside those in EXPECTED; a bound needs all of them
};

/// Every output in `expected` against the tensor of its name in `actual`.  Where the operator is
/// known, so are its groups, its steps and the rows that are compared, and with its operands its
/// bound.  Throws Error(file) for operands that the operator would refuse, Error(argument) for a
/// bound without an operator or its operands.
CaseVerdict compare_files(const std::filesystem::path& expected,
                          const std::filesystem::path& actual, const CompareOptions& options,
                          CallGiven given = {});

}  // namespace mxo
