// What one cause is claimed to explain, before causes are ranked.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/name/places.h"

namespace mxo {

/// A cause, and the part of the differing elements that it explains.
struct Claim {
  std::string id;        ///< "never_written"; stable, for programs
  std::string sentence;  ///< "rows 28 to 31 of group 0 of y hold NaN: never written"
  Where where;
  double elements = 0;   ///< differing elements explained; estimated where a sample was run
  bool sampled = false;  ///< confirmed on a part of the output only
};

}  // namespace mxo
