// One fused sum of a matrix unit, in integers: the definition every vectorised engine must meet.
#pragma once

#include <cstdint>

#include "emu/sums/dot_operand.h"
#include "ops/sums.h"

namespace mxo {

/// The NaN a machine returns.  NVIDIA units lose sign and payload; for CDNA3 nothing is published.
MXO_HD constexpr std::uint32_t machine_nan(SumFamily family) {
  return family == SumFamily::fused_dot ? 0x7FFFFFFFu : 0x7FC00000u;
}

/// One chunk: c + sum over i < how.chunk of a[i] * b[i], as `how` has it.
/// `fraction` is the sum of the mantissa bits of the two formats.
float fused_dot_step(const Accumulation& how, int fraction, const DotOperand* a,
                     const DotOperand* b, float c);
float cdna3_dot_step(const Accumulation& how, int fraction, const DotOperand* a,
                     const DotOperand* b, float c);

inline float dot_step(const Accumulation& how, int fraction, const DotOperand* a,
                      const DotOperand* b, float c) {
  return how.family == SumFamily::cdna3_dot ? cdna3_dot_step(how, fraction, a, b, c)
                                            : fused_dot_step(how, fraction, a, b, c);
}

}  // namespace mxo
