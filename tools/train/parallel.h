// Independent tasks on threads.
#pragma once

#include <algorithm>
#include <exception>
#include <mutex>

#include "formats/tensor_view.h"

namespace mxo::tools {

/// task(0) ... task(count - 1), each on one thread; throws what one of them has thrown.
template <typename Task>
void for_each_task(Index count, int threads, const Task& task) {
  if (threads <= 1 || count <= 1) {
    for (Index i = 0; i < count; ++i) task(i);
    return;
  }
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

/// task(first, end) over parts of 0 .. count - 1, `size` long.
template <typename Task>
void for_each_part(Index count, Index size, int threads, const Task& task) {
  for_each_task((count + size - 1) / size, threads,
                [&](Index part) { task(part * size, std::min(count, (part + 1) * size)); });
}

}  // namespace mxo::tools
