// AMD CDNA3 matrix units, over operands in memory.
#include "emu/sums/cdna3_dot_step.h"
#include "emu/sums/fused_dot.h"

namespace mxo {

float cdna3_dot_step(const Accumulation& how, int fraction, const DotOperand* a,
                     const DotOperand* b, float c) {
  return cdna3::cdna3_step(how, fraction, a, b, c);
}

}  // namespace mxo
