// A machine whose instructions none of the tables is written for runs plain C++.
#include "emu/cpu/isa.h"

namespace mxo::cpu {

Isa detect_isa() { return Isa::scalar; }

}  // namespace mxo::cpu
