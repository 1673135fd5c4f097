// Weights that many products read, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

void bind_prepared(nanobind::module_& module);

}  // namespace mxo::python
