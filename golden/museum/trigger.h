// Which case of the suites shows a fault of the museum.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "golden/museum/museum.h"

namespace mxo {

struct Triggered {
  std::string suite;
  std::string id;       ///< of the case
  std::string verdict;  ///< what compare says of the faulty kernel's outputs
};

/// For each exhibit the first case of level 1, in the order of `mxo list suites`, to which a kernel
/// with the fault gives another answer than expected, or (where the fault spoils nothing that
/// is compared) one that the judge has to say something about.  Nothing where no case shows it.
std::vector<std::optional<Triggered>> triggered_by_suites(Backend& backend, World& world,
                                                          std::span<const Exhibit> faults);

/// One row of docs/museum.md up to what explain says.
std::string markdown_row(const Exhibit& exhibit, const std::optional<Triggered>& triggered);
/// Its head, two lines.
std::string markdown_head();

}  // namespace mxo
