// The cases of the golden suites.
#include "python/src/cases.h"

#include "golden/suites/suites.h"
#include "python/src/bridge.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

/// (id, operator, parameters, flags, what makes its inputs of a seed).
nb::tuple case_row(const SuiteCase& item) {
  nb::dict set;
  for (const auto& [key, value] : item.parameters) set[nb::cast(key)] = value;
  return nb::make_tuple(item.id, item.op, set, nb::cast(item.flags),
                        nb::cpp_function([item](std::uint64_t seed) {
                          return arrays_from(item.inputs(InputStream(seed, item.id)));
                        }));
}

nb::list cases(const std::string& suite, int level) {
  nb::list list;
  for (const SuiteCase& item : suite_cases(suite, level)) list.append(case_row(item));
  return list;
}

}  // namespace

void bind_cases(nb::module_& module) { module.def("cases", cases); }

}  // namespace mxo::python
