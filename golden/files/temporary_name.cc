// Random names from the system's own source.
#include "golden/files/temporary_name.h"

#include <random>
#include <string>
#include <string_view>

namespace mxo {
namespace {

constexpr std::string_view kSuffix = ".partial-";
constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::filesystem::path temporary_name(const std::filesystem::path& final_name) {
  std::random_device source;
  std::string suffix(kSuffix);
  for (int i = 0; i < 4; ++i) {
    const unsigned word = source();
    for (int digit = 0; digit < 4; ++digit) suffix += kHexDigits[word >> 4 * digit & 15];
  }
  std::filesystem::path name = final_name;
  name += suffix;
  return name;
}

bool is_temporary_name(const std::filesystem::path& name) {
  const std::string last = name.extension().string();
  return last.starts_with(kSuffix) && last.size() == kSuffix.size() + 16 &&
         last.find_first_not_of(kHexDigits, kSuffix.size()) == last.npos;
}

}  // namespace mxo
