// Independent tasks on threads.
#pragma once

#include <exception>
#include <mutex>

#include "formats/tensor_view.h"

namespace mxo::tools {

/// task(0) ... task(count - 1), each on one thread; throws what one of them has thrown.
template <typename Task>
void for_each_task(Index count, int threads, const Task& task) {
  std::exception_ptr failure;
  std::mutex mutex;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (Index i = 0; i < count; ++i) {
    try {
      task(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mxo::tools
