// The values of 8-bit codes.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"

namespace mxo::cpu {

/// The value of every code of an 8-bit format; NaN and infinity as they are.
const float* code_values(Dtype dtype);
CodeFormat code_format(Dtype dtype);
/// The exponent of the last place of the binade of a magnitude code.
int quantum_of(const CodeFormat& format, int magnitude);

}  // namespace mxo::cpu
