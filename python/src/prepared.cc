// Weights that many products read, for Python.
#include "python/src/prepared.h"

#include "emu/prepared.h"
#include "python/src/bridge.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

Operand operand_of(const OperandsIn& given, std::string_view name) {
  const auto found = given.views.operands().find(name);
  return found == given.views.operands().end() ? Operand{} : found->second.view;
}

/// (type, address, extents) of codes and, where there are some, of scales.
nb::list parts_of(const PreparedWeights& weights) {
  nb::list parts;
  for (const Operand& part : {weights.codes(), weights.scales()}) {
    if (!part.given()) continue;
    parts.append(nb::make_tuple(std::string(name_of(part.dtype)),
                                reinterpret_cast<std::uintptr_t>(part.data),
                                std::vector<Index>(part.extent, part.extent + part.rank)));
  }
  return parts;
}

}  // namespace

void bind_prepared(nb::module_& module) {
  nb::class_<PreparedWeights>(module, "PreparedWeights")
      .def("__init__",
           [](PreparedWeights* self, const std::vector<ArrayIn>& arrays) {
             const OperandsIn w = operands_from(arrays);
             const char* codes = arrays.size() == 1 ? "w" : "w.codes";
             new (self) PreparedWeights(operand_of(w, codes), operand_of(w, "w.scales"));
           })
      .def("parts", parts_of)
      .def_prop_ro("packed_bytes", &PreparedWeights::packed_bytes);
}

}  // namespace mxo::python
