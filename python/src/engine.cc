// A backend that Python keeps, and calls on it.
#include "python/src/engine.h"

#include <omp.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "python/src/float_state.h"

namespace mxo::python {

namespace nb = nanobind;

Engine::Engine(const std::string& backend, int threads)
    : threads_(threads != 0 ? threads : omp_get_max_threads()) {
  const FloatState ieee(1);  // the backend's constructor looks at the arithmetic
  backend_ = make_backend(backend, threads_);
}

nb::list Engine::run(const std::string& op, const std::vector<ArrayIn>& inputs, const nb::dict& set,
                     const std::vector<ArrayIn>& results) {
  const Parameters parameters = parameters_from(set);
  NamedTensors outputs;
  {
    const nb::gil_scoped_release release;
    const FloatState ieee(threads_);
    OperandsIn operands = operands_from(inputs);
    write_to(operands.views, results);
    outputs = call(op, operands.views, parameters);
  }
  return arrays_from(std::move(outputs));
}

NamedTensors Engine::call(const std::string& op, const NamedViews& inputs, const Parameters& set) {
  const std::unique_ptr<World> world = make_in_process_world();
  const auto mine = turn();
  return call_operator(*backend_, op, inputs, set, world.get());
}

std::unique_lock<std::mutex> Engine::turn() {
  return backend_->reads_host_memory() ? std::unique_lock<std::mutex>() : std::unique_lock(turn_);
}

namespace {

/// (name, element type, extents) of the outputs that a call would have; none for an operator that
/// works on ranks.  Integer operands are read: they are the host's.
nb::list outputs_of(const std::string& op, const std::vector<ArrayIn>& inputs,
                    const nb::dict& set) {
  const Parameters parameters = parameters_from(set);
  NamedTensors outputs;
  {
    const nb::gil_scoped_release release;
    outputs = check_call(op, operands_from(inputs).views, parameters);
  }
  nb::list list;
  for (const auto& [name, tensor] : outputs) {
    list.append(nb::make_tuple(name, std::string(name_of(tensor.dtype())),
                               nb::tuple(nb::cast(tensor.shape()))));
  }
  return list;
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const std::string&, int>(), nb::arg("backend"), nb::arg("threads"))
      .def("run", &Engine::run, nb::arg("op"), nb::arg("inputs"), nb::arg("set"),
           nb::arg("results") = std::vector<ArrayIn>{})
      .def_prop_ro("threads", &Engine::threads);
  module.def("outputs_of", outputs_of);
}

}  // namespace mxo::python
