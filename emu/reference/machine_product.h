// Products of matrix units, one output at a time.
#pragma once

#include <span>

#include "ops/contraction_view.h"

namespace mxo {

/// The definition: every output by the scalar engine.
void run_each(std::span<const ContractionView> products);

}  // namespace mxo
