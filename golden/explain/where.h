// A place in an output, in words.
#pragma once

#include <string>

namespace mxo {

/// A place in an output.  Ranges are written "0-3, 7"; an empty one says nothing.
struct Where {
  std::string tensor;
  std::string groups;
  std::string rows;
  std::string columns;
  std::string blocks;
};

}  // namespace mxo
