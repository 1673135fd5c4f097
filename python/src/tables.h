// The tables of the library as Python's own data.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

void bind_tables(nanobind::module_& module);

}  // namespace mxo::python
