// The outputs of a kernel against the expected ones, and why they differ.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

void bind_judgement(nanobind::module_& module);

}  // namespace mxo::python
