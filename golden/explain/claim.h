// What one cause is claimed to explain, before causes are ranked.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/hypotheses.h"
#include "golden/explain/where.h"
#include "golden/explain/words/places.h"

namespace mxo {

/// A cause, and the part of the differing elements that it explains.
struct Claim {
  std::string id;        ///< "never_written"; stable, for programs
  std::string sentence;  ///< "rows 28 to 31 of group 0 of y hold NaN: never written"
  Where where;
  double elements = 0;  ///< differing elements that the cause accounts for
  /// Those of them that were computed with the cause and hold what it gives; negative: all.
  double confirmed = -1;
  FindingKind kind = FindingKind::cause;
  /// One altered call that gives every bit says more, and is looked for.
  bool yields = false;
  /// Was made from the actual output: it tells no place that it was not told.
  bool measured = false;
  /// Of all of a call that was altered and run: what was altered.
  std::vector<Hypothesis> made_by = {};
  double judged() const { return confirmed < 0 ? elements : confirmed; }
};

inline void append(std::vector<Claim>& to, std::vector<Claim> more) {
  for (Claim& c : more) to.push_back(std::move(c));
}

}  // namespace mxo
