// The table of each target of Highway: all but tile registers.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"

namespace mxo::cpu::N_EMU128 {
Kernels kernels(Isa isa);
}
namespace mxo::cpu::N_AVX2 {
Kernels kernels(Isa isa);
}
namespace mxo::cpu::N_AVX3 {
Kernels kernels(Isa isa);
}
namespace mxo::cpu::N_NEON {
Kernels kernels(Isa isa);
}
