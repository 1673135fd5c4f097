// States of the floating-point unit that libraries built with -ffast-math leave behind.
#pragma once

#include <cfenv>

namespace mxo::test {

enum class FloatState { flush_results, flush_operands, upward, downward, toward_zero };

inline constexpr FloatState kForeignStates[] = {FloatState::flush_results,
                                                FloatState::flush_operands, FloatState::upward,
                                                FloatState::downward, FloatState::toward_zero};

/// Sets it for the calling thread, on top of what there is.
void set_float_state(FloatState state);

/// Sets it, and what was before at its end.
class WithFloatState {
 public:
  explicit WithFloatState(FloatState state) {
    std::fegetenv(&before_);
    set_float_state(state);
  }
  WithFloatState(const WithFloatState&) = delete;
  WithFloatState& operator=(const WithFloatState&) = delete;
  ~WithFloatState() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_{};
};

}  // namespace mxo::test
