// Arithmetic as IEEE has it while a call runs, whatever the process has set.
#include "python/src/float_state.h"

#include <cstring>

#include <omp.h>

namespace mxo::python {
namespace {

/// True if what the thread had was not the default.
bool enter(std::fenv_t& saved) {
  std::fegetenv(&saved);
  std::fesetenv(FE_DFL_ENV);
  std::fenv_t ieee;
  std::fegetenv(&ieee);
  return std::memcmp(&saved, &ieee, sizeof ieee) != 0;
}

}  // namespace

FloatState::FloatState(int threads) : saved_(static_cast<std::size_t>(threads)) {
  enter(saved_[0]);
  if (threads == 1) return;
#pragma omp parallel num_threads(threads)
  if (const int thread = omp_get_thread_num(); thread > 0) {
    if (enter(saved_[static_cast<std::size_t>(thread)])) team_differed_ = true;
  }
}

FloatState::~FloatState() {
  if (team_differed_) {
#pragma omp parallel num_threads(static_cast <int>(saved_.size()))
    if (const int thread = omp_get_thread_num(); thread > 0) {
      std::fesetenv(&saved_[static_cast<std::size_t>(thread)]);
    }
  }
  std::fesetenv(&saved_[0]);
}

}  // namespace mxo::python
