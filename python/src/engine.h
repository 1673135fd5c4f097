// A backend that Python keeps, and calls on it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ops/backend.h"
#include "ops/communicator.h"
#include "python/src/bridge.h"

namespace mxo::python {

/// One backend and the number of its threads.  Calls may come from several threads at once.
class Engine {
 public:
  /// `threads` 0: as many as OpenMP would take.  `stream`: the caller's, of CUDA.
  Engine(const std::string& backend, int threads, std::optional<std::uintptr_t> stream);

  /// The outputs of one call that `results` has no memory for and `make` makes none: if not None,
  /// it takes name, type and extents and gives an ArrayIn.  Without `wait` work of a GPU may be
  /// under way when it returns.  Runs without the interpreter's lock, in IEEE arithmetic.
  nanobind::list run(const std::string& op, const std::vector<ArrayIn>& inputs,
                     const nanobind::dict& set, const std::vector<ArrayIn>& results,
                     const nanobind::object& make, bool wait);

  /// The same between views, without touching Python; the caller has set the arithmetic.
  NamedTensors call(const std::string& op, const NamedViews& inputs, const Parameters& set,
                    bool wait = true);

  /// The backend for one thread at a time: a GPU's is one stream.  Of a CPU nothing is held.
  std::unique_lock<std::mutex> turn();
  Backend& backend() { return *backend_; }
  int threads() const { return threads_; }

 private:
  std::unique_ptr<Backend> backend_;
  int threads_;
  std::mutex turn_;
};

void bind_engine(nanobind::module_& module);

}  // namespace mxo::python
