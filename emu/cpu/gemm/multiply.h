// The fast grouped products: `exact` and `fma_chain`, with the bits of the definition.
#pragma once

#include <vector>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/exact/stage_counts.h"
#include "ops/contraction_view.h"

namespace mxo::cpu {

/// The products of one operator, of any form but ScaleForm::other.  Returns how many outputs each
/// stage decided; chains are not counted.
StageCounts multiply(std::vector<ContractionView> products, const Kernels& kernels, int threads);

}  // namespace mxo::cpu
