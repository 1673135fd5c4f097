// Error as Python's exception.
#include "python/src/errors.h"

#include <exception>

#include "formats/error.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

/// In the order of Fault.
constexpr const char* kFaults[] = {"argument", "shape", "dtype", "file", "unsupported", "internal"};

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object type =
        nb::module_::import_("mxoracle._errors")
            .attr(error.fault() == Fault::unsupported ? "Unsupported" : "Error");
    const nb::object value = type(error.what(), kFaults[static_cast<int>(error.fault())]);
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace mxo::python
