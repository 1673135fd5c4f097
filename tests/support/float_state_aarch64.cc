// Flushing as the register FPCR of 64-bit Arm spells it: FZ takes operands and results.
#include <cstdint>

#include "tests/support/float_state.h"

namespace mxo::test {
namespace {

void flush() {
  constexpr std::uint64_t kFlushToZero = std::uint64_t{1} << 24;
  std::uint64_t control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  control |= kFlushToZero;
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
}

}  // namespace

void set_float_state(FloatState state) {
  switch (state) {
    case FloatState::flush_results:
    case FloatState::flush_operands: flush(); break;
    case FloatState::upward: std::fesetround(FE_UPWARD); break;
    case FloatState::downward: std::fesetround(FE_DOWNWARD); break;
    case FloatState::toward_zero: std::fesetround(FE_TOWARDZERO); break;
  }
}

}  // namespace mxo::test
