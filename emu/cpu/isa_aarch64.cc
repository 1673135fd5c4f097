// NEON is part of 64-bit Arm; Linux reports SVE in the auxiliary vector.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "emu/cpu/isa.h"

namespace mxo::cpu {

Isa detect_isa() { return (getauxval(AT_HWCAP) & HWCAP_SVE) != 0 ? Isa::sve : Isa::neon; }

}  // namespace mxo::cpu
