// The fast grouped products: `exact` and `fma_chain`, with the bits of the definition.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"
#include "ops/grouped_matmul.h"

namespace mxo::cpu {

void multiply(const GroupedMatmul& op, const Kernels& kernels, int threads);
void multiply(const GroupedMatmulWgrad& op, const Kernels& kernels, int threads);

}  // namespace mxo::cpu
