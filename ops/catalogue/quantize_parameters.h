// The `--set` keys that say how scales are made, and where they lie.
#pragma once

#include "formats/scale_profile.h"
#include "ops/catalogue/staging.h"
#include "ops/parameters.h"
#include "ops/quantize_f32_scales.h"

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

/// Blocks of all groups, from ends that the host can read.  Ends that are out of order count for
/// nothing here: the operator's own check names them.
inline Index blocks_of(const Operand& ends, Index rows) {
  const bool wide = ends.dtype == Dtype::i64;
  if (ends.rank != 1 || (!wide && ends.dtype != Dtype::i32)) return 0;
  Index blocks = 0;
  Index start = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index end =
        wide ? ends.as<const std::int64_t, 1>()(g) : ends.as<const std::int32_t, 1>()(g);
    if (end < start || end > rows) return 0;
    blocks += ceil_div(end - start, kScaledBlock);
    start = end;
  }
  return blocks;
}

inline BlockShape block_shape(std::string_view name) {
  if (name == "128x1") return BlockShape::column_128x1;
  return name == "128x128" ? BlockShape::square_128x128 : BlockShape::row_1x128;
}

/// The rule of a blockwise profile.
inline F32ScaleRule blockwise_rule_of(const Parameters& set) {
  for (const NamedScaleRule& row : kBlockwiseProfiles) {
    if (row.name == set.text("profile", "torchao")) return row.rule;
  }
  return kTorchaoBlockwise;
}

}  // namespace mxo
