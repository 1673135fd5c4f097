// Rows or columns of an output that belong to no group.
#pragma once

#include "golden/judge/comparator.h"

namespace mxo {

/// "rows 200 to 255 belong to no group and hold NaN: not compared"; empty where there are none.
std::string unowned_rows(const Groups& groups, const Tensor& actual, Dtype format);

}  // namespace mxo
