// Error as Python's exception.
#pragma once

#include <nanobind/nanobind.h>

namespace mxo::python {

/// Every mxo::Error leaves this module as mxoracle.Error, Fault::unsupported as Unsupported.
void bind_errors(nanobind::module_& module);

}  // namespace mxo::python
