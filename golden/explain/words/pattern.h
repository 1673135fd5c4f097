// What differences look like where no cause is known.
#pragma once

#include "golden/explain/case/output.h"

namespace mxo {

/// The elements that are left, in words: where, how far, of what kind.  Empty if none are.
std::string pattern_of(const Output& output);

}  // namespace mxo
