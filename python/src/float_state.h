// Arithmetic as IEEE has it while a call runs, whatever the process has set.
#pragma once

#include <atomic>
#include <cfenv>
#include <vector>

namespace mxo::python {

/// Sets rounding to nearest, subnormals kept and traps off for the calling thread and its team of
/// `threads` OpenMP threads, and puts back what each of them had.  A library may flush subnormals
/// after a backend was made (torch.set_flush_denormal does), which would change bits in silence.
class FloatState {
 public:
  explicit FloatState(int threads);
  ~FloatState();
  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;

 private:
  std::vector<std::fenv_t> saved_;
  std::atomic<bool> team_differed_{false};
};

}  // namespace mxo::python
