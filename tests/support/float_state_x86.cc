// Flush-to-zero and denormals-are-zero as x86 spells them.
#include <xmmintrin.h>

#include "tests/support/float_state.h"

namespace mxo::test {

void set_float_state(FloatState state) {
  switch (state) {
    case FloatState::flush_results: _mm_setcsr(_mm_getcsr() | 0x8000u); break;
    case FloatState::flush_operands: _mm_setcsr(_mm_getcsr() | 0x0040u); break;
    case FloatState::upward: std::fesetround(FE_UPWARD); break;
    case FloatState::downward: std::fesetround(FE_DOWNWARD); break;
    case FloatState::toward_zero: std::fesetround(FE_TOWARDZERO); break;
  }
}

}  // namespace mxo::test
