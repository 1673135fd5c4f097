// Arrays of frameworks that the package does not know by name.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

void bind_foreign(nanobind::module_& module);

}  // namespace mxo::python
