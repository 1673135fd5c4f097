// The `--set` keys that say how scales are made.
#pragma once

#include "formats/scale_profile.h"
#include "ops/parameters.h"

namespace mxo {

inline ScaleMode scale_mode_of(const Parameters& set) {
  const std::string_view name = set.text("scale_mode", "rceil");
  if (name == "floor") return ScaleMode::floor;
  if (name == "ceil") return ScaleMode::ceil;
  return name == "even" ? ScaleMode::even : ScaleMode::rceil;
}

inline ScaleProfile profile_of(const Parameters& set) {
  const std::string_view name = set.text("profile", "torchao");
  for (const NamedProfile& row : kProfiles) {
    if (row.name == name) return row.profile;
  }
  return kTorchao;
}

}  // namespace mxo
