// Whole numbers of JSON.  The library turns any number into any type: 1e47 into an integer, which
// is undefined.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/error.h"

namespace mxo {

/// Does nothing for what holds no integers.
template <typename T>
struct WholeNumbers {
  template <typename Json>
  static void check(const Json&, const char*) {}
};

/// Throws Error(file) "key: ..." for what is not a whole number from 0 to the largest T.
template <std::integral T>
struct WholeNumbers<T> {
  template <typename Json>
  static void check(const Json& json, const char* key) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (json.is_number_unsigned() && json.template get<std::uint64_t>() <= most) return;
    throw Error(Fault::file, std::string(key) + ": found " + json.dump() +
                                 ", needs a whole number from 0 to " + std::to_string(most));
  }
};

template <typename T>
struct WholeNumbers<std::vector<T>> {
  template <typename Json>
  static void check(const Json& json, const char* key) {
    if (!json.is_array()) return;  // the library says so
    for (const Json& item : json) WholeNumbers<T>::check(item, key);
  }
};

}  // namespace mxo
