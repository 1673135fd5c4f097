// What is said of a place in an output: of which kind it is, and where.
#pragma once

#include <cstdint>
#include <string>

namespace mxo {

/// What explain says.
enum class FindingKind : std::uint8_t {
  cause,    ///< what the kernel did
  symptom,  ///< only what is seen (a bit of one element, rows of zeros or NaN): true as it stands
  follows,  ///< a symptom of something else that is wrong: codes of other scales
  look,     ///< what values look like, weighed as a cause is: nobody knows what made them so
};

/// A place in an output.  Ranges are written "0-3, 7"; an empty one says nothing.
struct Where {
  std::string tensor;
  std::string groups;
  std::string rows;
  std::string columns;
  std::string blocks;
};

}  // namespace mxo
