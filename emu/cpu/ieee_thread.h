// Sets the IEEE 754 float environment in the threads of a team, whatever it was before.
#pragma once

#include <cfenv>

#include "formats/tensor_view.h"

namespace mxo::cpu {

/// `firstprivate(ieee_thread)` on a parallel region gives each thread a copy, which sets rounding
/// to nearest and no flushing of subnormals for its lifetime: libgomp shares one pool of threads
/// in a process, and other code may have left flush-to-zero on in them.
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

/// step(i) for i = 0 .. n - 1, shared by threads.  For generic lambdas, in which clang 14 rejects
/// firstprivate of a namespace-scope variable.
template <typename Step>
void share_steps(Index n, int threads, const Step& step) {
#pragma omp parallel for num_threads(threads) firstprivate(ieee_thread)
  for (Index i = 0; i < n; ++i) step(i);
}

}  // namespace mxo::cpu
