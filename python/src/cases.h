// The cases of the golden suites.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

void bind_cases(nanobind::module_& module);

}  // namespace mxo::python
