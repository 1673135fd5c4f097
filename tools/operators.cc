// Operators by name.
#include "tools/operators.h"

namespace mxo::tools {

const CatalogueEntry& operator_named(const std::string& name) { return catalogue_entry(name); }

}  // namespace mxo::tools
