// A backend that Python keeps, and calls on it.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"
#include "ops/communicator.h"
#include "python/src/bridge.h"

namespace mxo::python {

/// One backend and the number of its threads.  Calls may come from several threads at once.
class Engine {
 public:
  /// `threads` 0: as many as OpenMP would take.
  Engine(const std::string& backend, int threads);

  /// The outputs of one call.  Runs without the interpreter's lock, in IEEE arithmetic.
  nanobind::list run(const std::string& op, const std::vector<ArrayIn>& inputs,
                     const nanobind::dict& set);

  /// The same between views, without touching Python; the caller has set the arithmetic.
  NamedTensors call(const std::string& op, const NamedViews& inputs, const Parameters& set);

  Backend& backend() { return *backend_; }
  int threads() const { return threads_; }

 private:
  std::unique_ptr<Backend> backend_;
  int threads_;
};

void bind_engine(nanobind::module_& module);

}  // namespace mxo::python
