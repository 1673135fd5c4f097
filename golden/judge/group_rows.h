// Which rows of an output belong to which group, and which are compared.
#pragma once

#include <string_view>

#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// group_ends (i32 or i64) as host numbers; empty if the tensor is neither, or not sensible.
std::vector<Index> group_ends_of(const Tensor& tensor);

/// Groups of `output` of operator `op` called on `inputs` with the parameters `set`: where the
/// operator writes rows sorted by group, the groups, and rows at or beyond the last end are not
/// compared.  Where it writes them as columns, no groups, and columns beyond the last end are not
/// compared.  None otherwise.
Groups groups_of(std::string_view op, std::string_view output, const NamedTensors& inputs,
                 const Parameters& set, const Tensor& tensor);
/// The same of a tensor of this shape, where group_ends holds `ends`.
Groups groups_of(std::string_view op, std::string_view output, std::vector<Index> ends,
                 const Parameters& set, const std::vector<Index>& shape);

}  // namespace mxo
