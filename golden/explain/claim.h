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
  double elements = 0;  ///< differing elements that the cause accounts for
  /// Those of them that were computed with the cause and hold what it gives; negative: all.
  double confirmed = -1;
  double judged() const { return confirmed < 0 ? elements : confirmed; }
};

}  // namespace mxo
