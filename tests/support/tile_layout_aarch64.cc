// No tiles to spell out: tests that want them are skipped.
#include "tests/support/tile_emulation.h"

namespace mxo::test {

const cpu::Kernels& amx_layout_kernels() { return cpu::kernels_of(cpu::Isa::scalar); }

}  // namespace mxo::test
