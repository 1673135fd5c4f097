// NVIDIA matrix units, over operands in memory.
#include "emu/sums/fused_dot.h"

#include "emu/sums/fused_dot_step.h"

namespace mxo {

float fused_dot_step(const Accumulation& how, int fraction, const DotOperand* a,
                     const DotOperand* b, float c) {
  return fused_step(how, fraction, a, b, c);
}

}  // namespace mxo
