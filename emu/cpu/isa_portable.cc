// A machine with no table for its instruction set runs plain C++.
#include "emu/cpu/isa.h"

namespace mxo::cpu {

Isa detect_isa() { return Isa::scalar; }

}  // namespace mxo::cpu
