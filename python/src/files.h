// Tensors to and from files.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

void bind_files(nanobind::module_& module);

}  // namespace mxo::python
