// Operators by name.
#include "tools/operators.h"

#include "formats/error.h"

namespace mxo::tools {

const CatalogueEntry& operator_named(const std::string& name) { return catalogue_entry(name); }

std::string operator_there(const std::string& name) {
  try {
    operator_named(name);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace mxo::tools
