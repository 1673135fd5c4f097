// The figures of one tensor as SVG.
#pragma once

#include <string>

#include "golden/judge/verdict.h"

namespace mxo {

/// Differing elements by blocks of rows and columns, with both axes, a line at each group's end, a
/// legend, and the figures of a block where the pointer rests.
std::string heat_map_svg(const TensorVerdict& tensor);
/// Elements by distance in ulp, each bar with its range and count.
std::string histogram_svg(const TensorVerdict& tensor);

}  // namespace mxo
