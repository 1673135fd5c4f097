// Operators by name, with a suggestion for a name that is nearly right.
#pragma once

#include <string>

#include "ops/catalogue.h"

namespace mxo::tools {

/// Throws Error(argument): "unknown operator 'quantise', did you mean quantize? ...".
const CatalogueEntry& operator_named(const std::string& name);
/// A check of CLI11 for names of operators: what operator_named throws of it, or nothing.  What
/// is checked is said before what is missing.
std::string operator_there(const std::string& name);

}  // namespace mxo::tools
