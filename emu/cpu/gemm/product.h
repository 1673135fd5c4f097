// What the fast products compute: C[m, n] = sum over c of A[m, c] * B[n, c], through strides.
#pragma once

#include "ops/contraction_view.h"

namespace mxo::cpu {

/// One group's product.
using Product = ContractionView;

}  // namespace mxo::cpu
