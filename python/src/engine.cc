// A backend that Python keeps, and calls on it.
#include "python/src/engine.h"

#include <omp.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "python/src/float_state.h"

namespace mxo::python {

namespace nb = nanobind;

Engine::Engine(const std::string& backend, int threads)
    : threads_(threads > 0 ? threads : omp_get_max_threads()) {
  const FloatState ieee(1);  // the backend's constructor looks at the arithmetic
  backend_ = make_backend(backend, threads_);
}

nb::list Engine::run(const std::string& op, const std::vector<ArrayIn>& inputs,
                     const nb::dict& set) {
  const Parameters parameters = parameters_from(set);
  NamedTensors outputs;
  {
    const nb::gil_scoped_release release;
    const FloatState ieee(threads_);
    const OperandsIn operands = operands_from(inputs);
    outputs = call(op, operands.views, parameters);
  }
  return arrays_from(std::move(outputs));
}

NamedTensors Engine::call(const std::string& op, const NamedViews& inputs, const Parameters& set) {
  const std::unique_ptr<World> world = make_in_process_world();
  return call_operator(*backend_, op, inputs, set, world.get());
}

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const std::string&, int>(), nb::arg("backend"), nb::arg("threads"))
      .def("run", &Engine::run, nb::arg("op"), nb::arg("inputs"), nb::arg("set"))
      .def_prop_ro("threads", &Engine::threads);
}

}  // namespace mxo::python
