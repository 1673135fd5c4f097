// Threads of a team compute as IEEE 754 says, whatever their runtime was started with.
#pragma once

#include <cfenv>

namespace mxo::cpu {

/// `firstprivate(ieee_thread)` on a parallel region gives each thread a copy, which sets rounding
/// to nearest and no flushing of subnormals for as long as it lives: libgomp lends the threads of
/// one pool to everyone in a process, and another user of it may have left them flushing.
class IeeeThread {
 public:
  constexpr IeeeThread() = default;
  IeeeThread(const IeeeThread&) : lent_(true) {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  IeeeThread& operator=(const IeeeThread&) = delete;
  ~IeeeThread() {
    if (lent_) std::fesetenv(&before_);
  }

 private:
  bool lent_ = false;
  std::fenv_t before_{};
};

inline const IeeeThread ieee_thread;

}  // namespace mxo::cpu
