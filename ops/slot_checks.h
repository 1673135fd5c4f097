// Words of the checks of experts, masks and blocks.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <limits>
#include <string>
#include <utility>

#include "ops/checked.h"

namespace mxo {

inline constexpr Index kMostSlots = std::numeric_limits<std::int32_t>::max();

/// experts or a result of that shape.
template <typename Void>
inline void check_slots(const Check& check, std::string_view name, const AnyView<Void>& view) {
  check.rank(name, view, 2);
  check.dtype(name, view, {Dtype::i32});
}

inline std::string entry(std::string_view operand, Index t, Index s, Index value) {
  return std::string(operand) + ": entry (" + std::to_string(t) + ", " + std::to_string(s) +
         ") is " + std::to_string(value);
}

/// Every entry is -1 or below `experts`.
inline void check_experts(const Check& check, const Operand& operand, Index experts) {
  const auto expert = operand.as<const std::int32_t, 2>();
  for (Index t = 0; t < expert.extent[0]; ++t) {
    for (Index s = 0; s < expert.extent[1]; ++s) {
      if (expert(t, s) >= -1 && expert(t, s) < experts) continue;
      check.that(false, entry("experts", t, s, expert(t, s)) + ", needs -1 or an expert below " +
                            std::to_string(experts));
    }
  }
}

/// Every entry of a map is -1 or below `experts`.
inline void check_map(const Check& check, const Operand& map, Index experts) {
  const auto to = map.as<const std::int32_t, 1>();
  for (Index e = 0; e < to.extent[0]; ++e) {
    if (to(e) >= -1 && to(e) < experts) continue;
    check.that(false, "expert_map: entry " + std::to_string(e) + " is " + std::to_string(to(e)) +
                          ", needs -1 or an expert below " + std::to_string(experts));
  }
}

inline void check_vector(const Check& check, std::string_view name, const Result& view,
                         Index length) {
  check.dtype(name, view, {Dtype::i32});
  check.shape(name, view, {length});
}

using Reads = std::initializer_list<std::pair<std::string_view, Operand>>;
using Writes = std::initializer_list<std::pair<std::string_view, Result>>;

/// No result shares bytes with what is read or with another result.
inline void check_apart(const Check& check, const Writes& results, const Reads& reads) {
  for (auto out = results.begin(); out != results.end(); ++out) {
    if (!out->second.given()) continue;
    for (const auto& [name, read] : reads) {
      if (read.given()) check.apart(out->first, out->second, name, read);
    }
    for (auto other = out + 1; other != results.end(); ++other) {
      if (other->second.given()) check.apart(out->first, out->second, other->first, other->second);
    }
  }
}

}  // namespace mxo
