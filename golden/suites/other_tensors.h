// What a file of outputs holds beside them.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <set>
#include <string>

#include "golden/files/tensor_file.h"
#include "golden/judge/verdict.h"

namespace mxo {

/// True where `actual` has all `operands` of the case file `expected`, byte for byte; false of
/// none.
bool holds_all(const TensorFile& actual, const TensorFile& expected,
               const std::set<std::string>& operands);

/// Makes a verdict that does not fail INVALID where `actual` holds all `operands` (`copy`): a copy
/// of the case is not an output.  Else notes the tensors of `actual` that have no expected value
/// (`outputs` are what is compared), but for ends of groups.
void see_other_tensors(const TensorFile& actual, const std::set<std::string>& outputs,
                       const std::set<std::string>& operands, bool copy, CaseVerdict& verdict);

}  // namespace mxo
