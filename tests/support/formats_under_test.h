// The formats as gtest types, and their names.
#pragma once

#include <gtest/gtest.h>

#include "formats/dtype.h"

namespace mxo::test {

using Formats8 = testing::Types<E4M3, E4M3Fnuz, E5M2, E5M2Fnuz>;
using AllFormats = testing::Types<E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, F16, BF16>;

template <typename Format>
constexpr const char* name_of_format() {
  if (std::is_same_v<Format, E4M3>) return "e4m3";
  if (std::is_same_v<Format, E4M3Fnuz>) return "e4m3fnuz";
  if (std::is_same_v<Format, E5M2>) return "e5m2";
  if (std::is_same_v<Format, E5M2Fnuz>) return "e5m2fnuz";
  return std::is_same_v<Format, F16> ? "f16" : "bf16";
}

/// Names typed tests "e4m3" instead of "0".
struct FormatName {
  template <typename Format>
  static std::string GetName(int) {
    return name_of_format<Format>();
  }
};

}  // namespace mxo::test
