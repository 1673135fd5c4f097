// What a call gave, as memory that Python reads and writes without a copy.
#include "python/src/memory.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

/// Plain bytes: what they mean, the package says.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Tensor& tensor = nb::inst_ptr<Memory>(self)->tensor();
  return PyBuffer_FillInfo(view, self, tensor.data(), static_cast<Py_ssize_t>(tensor.bytes()), 0,
                           flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(slots))
      .def_prop_ro("dtype", [](const Memory& m) {
        const std::string_view name = name_of(m.tensor().dtype());
        return nb::str(name.data(), name.size());
      });
}

}  // namespace mxo::python
