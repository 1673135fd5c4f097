// Scales of larger blocks laid out as the fast kernels take them: the same numbers, repeated.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/contraction_view.h"

namespace mxo::cpu {

/// What repeated scales lie in, as long as the products are used.
using SpreadScales = std::vector<std::vector<std::byte>>;

/// Gives each product of ScaleForm::other the form that it has with a scale for every K-vector and
/// every 128 (f32) or 32 (e8m0) K indices, or all of K, if blocks are multiples of these and there
/// is one.  Every element keeps its scale, so the products keep their bits.
SpreadScales spread_scales(std::vector<ContractionView>& products);

}  // namespace mxo::cpu
