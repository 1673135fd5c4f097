// Error as Python's exception.
#include "python/src/errors.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "formats/error.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

/// In the order of Fault.
constexpr const char* kFaults[] = {"argument", "shape", "dtype", "file", "unsupported", "internal"};

void raise(Fault fault, const char* message) {
  const nb::object type = nb::module_::import_("mxoracle._errors")
                              .attr(fault == Fault::unsupported ? "Unsupported" : "Error");
  const nb::object value = type(message, kFaults[static_cast<int>(fault)]);
  PyErr_SetObject(type.ptr(), value.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  constexpr const char* kNoRoom =
      "found extents or parameters that need more memory than there is, needs smaller ones";
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error.fault(), error.what());
  } catch (const std::bad_alloc&) {
    raise(Fault::unsupported, kNoRoom);
  } catch (const std::length_error&) {
    raise(Fault::unsupported, kNoRoom);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace mxo::python
