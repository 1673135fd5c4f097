// Random names from the system's own source.
#include "golden/files/temporary_name.h"

#include <random>

namespace mxo {

std::filesystem::path temporary_name(const std::filesystem::path& final_name) {
  std::random_device source;
  std::string suffix = ".partial-";
  for (int i = 0; i < 4; ++i) {
    const unsigned word = source();
    for (int digit = 0; digit < 4; ++digit) suffix += "0123456789abcdef"[word >> 4 * digit & 15];
  }
  std::filesystem::path name = final_name;
  name += suffix;
  return name;
}

}  // namespace mxo
