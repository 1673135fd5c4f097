// Lists of alternatives in one string: "scales=up|scales=down".
#pragma once

#include <functional>
#include <string_view>

namespace mxo {

/// True if `holds` does for one part of `list`, or the list is empty.
inline bool any_alternative(std::string_view list,
                            const std::function<bool(std::string_view)>& holds) {
  if (list.empty()) return true;
  while (true) {
    const std::size_t bar = list.find('|');
    if (holds(list.substr(0, bar))) return true;
    if (bar == std::string_view::npos) return false;
    list = list.substr(bar + 1);
  }
}

/// True if `text` begins with one of the parts of `list`.
inline bool starts_with_one(std::string_view text, std::string_view list) {
  return any_alternative(list, [&](std::string_view one) { return text.starts_with(one); });
}

/// True if one of the parts of `list` is in `text`.
inline bool contains_one(std::string_view text, std::string_view list) {
  return any_alternative(
      list, [&](std::string_view one) { return text.find(one) != std::string_view::npos; });
}

}  // namespace mxo
