// JSON of files, checked: what is missing, of another type, out of range, or no JSON at all.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/error.h"

namespace mxo {

/// What a T is read from.  The library turns any number into any type (1e47 into an integer, which
/// is undefined), so whole numbers are checked first.
template <typename T>
struct JsonType {
  static std::string needed() { return "an object"; }
  template <typename Json>
  static bool fits(const Json&) {
    return true;
  }
};

template <>
struct JsonType<std::string> : JsonType<void> {
  static std::string needed() { return "a string"; }
};

template <>
struct JsonType<double> : JsonType<void> {
  static std::string needed() { return "a number"; }
};

template <std::integral T>
struct JsonType<T> {
  static constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  static std::string needed() { return "a whole number from 0 to " + std::to_string(kMost); }
  template <typename Json>
  static bool fits(const Json& json) {
    return json.is_number_unsigned() && json.template get<std::uint64_t>() <= kMost;
  }
};

template <typename T>
struct JsonType<std::vector<T>> {
  static std::string needed() { return "a list, each entry " + JsonType<T>::needed(); }
  template <typename Json>
  static bool fits(const Json& json) {
    return json.is_array() && std::all_of(json.begin(), json.end(),
                                          [](const Json& item) { return JsonType<T>::fits(item); });
  }
};

template <typename Less>
struct JsonType<std::map<std::string, std::string, Less>> : JsonType<void> {
  static std::string needed() { return "an object of strings"; }
};

/// A field of `object`.  Throws Error(file): "key" is missing, or "key: found 3, needs a string".
template <typename T, typename Json>
T json_field(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) throw Error(Fault::file, std::string("\"") + key + "\" is missing");
  try {
    if (JsonType<T>::fits(*at)) return at->template get<T>();
  } catch (const typename Json::type_error&) {
    // said below
  }
  constexpr std::size_t kMostShown = 60;  // of ASCII: no character is cut
  throw Error(Fault::file, std::string(key) + ": found " +
                               at->dump(-1, ' ', true).substr(0, kMostShown) + ", needs " +
                               JsonType<T>::needed());
}

/// The whole text.  What lies deeper than any field of ours is refused, because it is copied and
/// freed by recursion, and so is a key that is there twice, of which one value would be lost.
/// Throws Error(file) naming the place at which it is no JSON.
template <typename Json>
Json parse_json(std::string_view text) {
  using Event = typename Json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of each object that is open
  const auto checked = [&keys](int depth, Event event, const Json& key) {
    constexpr int kDeepest = 16;
    if (depth > kDeepest) throw Error(Fault::file, "nested deeper than 16 levels");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(key.template get<std::string>()).second) {
      throw Error(Fault::file, "found key " + key.dump() + " twice in one object");
    }
    return true;
  };
  try {
    return Json::parse(text, checked);
  } catch (const typename Json::exception& error) {
    std::string said = error.what();  // "[json.exception.parse_error.101] parse error at line 2"
    said.erase(0, said.find("] ") + 2);
    constexpr std::string_view kTheirs = "parse error";
    if (said.starts_with(kTheirs)) said.replace(0, kTheirs.size(), "no JSON");
    throw Error(Fault::file, "found " + said);
  }
}

}  // namespace mxo
