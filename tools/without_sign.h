// Whole numbers on the command line.
#pragma once

#include <string>

namespace mxo::tools {

/// A check of CLI11 for unsigned options: the library would take -1 as 2^64 - 1.
inline std::string without_sign(const std::string& text) {
  return text.starts_with('-')
             ? "found " + text + ", needs a whole number from 0 to 18446744073709551615"
             : "";
}

}  // namespace mxo::tools
