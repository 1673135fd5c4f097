// Whole numbers, and true or false, on the command line.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>

namespace mxo::tools {

/// Checks of CLI11, which takes -1 for 2^64 - 1 where a number has no sign, and the end of the
/// range for what lies beyond it, and an empty word for none.
inline std::string unsigned_word(const std::string& text) {
  errno = 0;
  std::strtoull(text.c_str(), nullptr, 10);
  return text.empty() || text.starts_with('-') || errno == ERANGE
             ? "found " + text + ", needs a whole number from 0 to 18446744073709551615"
             : "";
}
inline std::string signed_word(const std::string& text) {
  errno = 0;
  std::strtoll(text.c_str(), nullptr, 10);
  return text.empty() || errno == ERANGE ? "found " + text + ", needs a whole number of 64 bits"
                                         : "";
}

inline std::string truth_word(const std::string& text) {
  bool value = false;
  return CLI::detail::lexical_cast(text, value) ? "" : "found " + text + ", needs true or false";
}

}  // namespace mxo::tools
