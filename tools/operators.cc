// Operators by name.
#include "tools/operators.h"

#include <vector>

#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo::tools {

const CatalogueEntry& operator_named(const std::string& name) {
  std::vector<std::string_view> names;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.name == name) return entry;
    names.emplace_back(entry.name);
  }
  throw Error(Fault::argument, unknown_name("operator", name, names));
}

}  // namespace mxo::tools
