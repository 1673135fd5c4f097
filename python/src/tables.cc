// The tables of the library as Python's own data.
#include "python/src/tables.h"

#include <string_view>

#include "emu/backends.h"
#include "formats/dtype.h"
#include "golden/suites/suites.h"
#include "ops/catalogue.h"
#include "ops/linear_recipe.h"
#include "ops/sums.h"
#include "python/src/bridge.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

nb::str text(std::string_view view) { return nb::str(view.data(), view.size()); }

nb::list operands(std::span<const OperandSpec> specs) {
  nb::list list;
  for (const OperandSpec& spec : specs) {
    nb::dict row;
    row["name"] = text(spec.name);
    row["shape"] = text(spec.shape);
    row["types"] = text(spec.types);
    row["optional"] = spec.optional;
    list.append(row);
  }
  return list;
}

nb::list operators() {
  nb::list list;
  for (const CatalogueEntry& entry : catalogue()) {
    nb::list parameters;
    for (const ParameterSpec& spec : entry.parameters) {
      nb::dict row;
      row["key"] = text(spec.key);
      row["values"] = text(spec.values);
      row["meaning"] = text(spec.meaning);
      parameters.append(row);
    }
    nb::dict row;
    row["name"] = text(entry.name);
    row["purpose"] = text(entry.purpose);
    row["inputs"] = operands(entry.inputs);
    row["outputs"] = operands(entry.outputs);
    row["parameters"] = parameters;
    row["ranks"] = entry.call_ranks != nullptr;
    list.append(row);
  }
  return list;
}

nb::list element_types() {
  nb::list list;
  for (const DtypeRow& row : dtypes()) {
    list.append(nb::make_tuple(text(row.name), row.bytes, text(row.meaning)));
  }
  return list;
}

nb::list backends() {
  nb::list list;
  for (const BackendRow& row : list_backends()) {
    list.append(nb::make_tuple(text(row.name), row.available, text(row.why)));
  }
  return list;
}

nb::list sum_rows() {
  nb::list list;
  for (const SumRow& row : sums()) {
    list.append(nb::make_tuple(text(row.name), text(row.operands), text(row.meaning)));
  }
  return list;
}

nb::list suite_rows() {
  nb::list list;
  for (const Suite& suite : suites()) {
    list.append(nb::make_tuple(text(suite.name), text(suite.purpose)));
  }
  return list;
}

}  // namespace

void bind_tables(nb::module_& module) {
  module.def("operators", operators);
  module.def("element_types", element_types);
  module.def("size_of", [](const std::string& name) { return size_of(dtype_of(name)); });
  module.def("recipe_named",
             [](const std::string& name) { return std::string(linear_recipe_named(name).name); });
  module.def("backends", backends);
  module.def("sums", sum_rows);
  module.def("suites", suite_rows);
}

}  // namespace mxo::python
