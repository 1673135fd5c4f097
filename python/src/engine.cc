// A backend that Python keeps, and calls on it.
#include "python/src/engine.h"

#include <nanobind/stl/optional.h>
#include <omp.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "ops/forwarding_backend.h"
#include "python/src/float_state.h"

namespace mxo::python {

namespace nb = nanobind;

namespace {

/// Does not wait for work on outputs that stay in the backend's memory: `download` waits by itself.
class Unwaited final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void synchronize() override {}

 protected:
  void around(std::string_view, const std::function<void()>& run) override { run(); }
};

/// What a call that is refused had begun is not found wrong in the next one.
void end_work(Backend& backend) {
  try {
    backend.synchronize();
  } catch (const Error&) {
  }
}

}  // namespace

Engine::Engine(const std::string& backend, int threads, std::optional<std::uintptr_t> stream)
    : threads_(threads != 0 ? threads : omp_get_max_threads()) {
  const FloatState ieee(1);  // the backend's constructor looks at the arithmetic
  backend_ = make_backend(backend, threads_, stream);
}

nb::list Engine::run(const std::string& op, const std::vector<ArrayIn>& inputs, const nb::dict& set,
                     const std::vector<ArrayIn>& results, const nb::object& make, bool wait) {
  const Parameters parameters = parameters_from(set);
  const auto made = [&](std::string_view name, Dtype dtype, const std::vector<Index>& shape) {
    const nb::gil_scoped_acquire acquire;
    const std::string_view type = name_of(dtype);
    return result_from(
        nb::cast<ArrayIn>(make(nb::str(name.data(), name.size()), nb::str(type.data(), type.size()),
                               nb::tuple(nb::cast(shape)))));
  };
  NamedTensors outputs;
  {
    const nb::gil_scoped_release release;
    const FloatState ieee(backend_->reads_host_memory() ? threads_ : 1);
    OperandsIn operands = operands_from(inputs);
    write_to(operands.views, results);
    if (!make.is_none()) operands.views.make_results(made);
    outputs = call(op, operands.views, parameters, wait);
  }
  return arrays_from(std::move(outputs));
}

NamedTensors Engine::call(const std::string& op, const NamedViews& inputs, const Parameters& set,
                          bool wait) {
  const std::unique_ptr<World> world = make_in_process_world();
  const auto mine = turn();
  try {
    Unwaited unwaited(*backend_);
    Backend& backend = wait ? *backend_ : unwaited;
    return call_operator(backend, op, inputs, set, world.get());
  } catch (...) {
    end_work(*backend_);
    throw;
  }
}

std::unique_lock<std::mutex> Engine::turn() {
  return backend_->reads_host_memory() ? std::unique_lock<std::mutex>() : std::unique_lock(turn_);
}

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const std::string&, int, std::optional<std::uintptr_t>>(), nb::arg("backend"),
           nb::arg("threads"), nb::arg("stream") = nb::none())
      .def("run", &Engine::run, nb::arg("op"), nb::arg("inputs"), nb::arg("set"),
           nb::arg("results") = std::vector<ArrayIn>{}, nb::arg("make") = nb::none(),
           nb::arg("wait") = true)
      .def_prop_ro("threads", &Engine::threads);
}

}  // namespace mxo::python
