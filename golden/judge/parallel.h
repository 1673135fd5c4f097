// Steps shared by threads, whose results do not depend on how many there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "formats/tensor_view.h"

namespace mxo {

/// step(i) for i = 0 .. n - 1 by `threads` threads (0: as many as the machine has), each of which
/// computes as IEEE 754 says.  The first exception is thrown once all have ended.
template <typename Step>
void share_among_threads(Index n, int threads, const Step& step) {
  const auto all =
      static_cast<Index>(threads > 0 ? static_cast<unsigned>(threads)
                                     : std::max(1u, std::thread::hardware_concurrency()));
  const Index helpers = std::min(all, n) - 1;
  std::atomic<Index> next{0};
  std::exception_ptr error;
  std::mutex one_at_a_time;
  const auto work = [&] {
    try {
      for (Index i = next++; i < n; i = next++) step(i);
    } catch (...) {
      const std::lock_guard lock(one_at_a_time);
      if (!error) error = std::current_exception();
      next = n;
    }
  };
  {
    std::vector<std::jthread> team;
    for (Index t = 0; t < helpers; ++t) {
      team.emplace_back([&work] {
        std::fesetenv(FE_DFL_ENV);
        work();
      });
    }
    std::fenv_t callers;
    std::fegetenv(&callers);
    std::fesetenv(FE_DFL_ENV);
    work();
    std::fesetenv(&callers);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace mxo
