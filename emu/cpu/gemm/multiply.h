// The fast grouped products: `exact` and `fma_chain`, with the bits of the definition.
#pragma once

#include "emu/cpu/isa.h"
#include "ops/grouped_matmul.h"

namespace mxo::cpu {

void multiply(const GroupedMatmul& op, Isa isa, int threads);
void multiply(const GroupedMatmulWgrad& op, Isa isa, int threads);

}  // namespace mxo::cpu
