// Checks of swizzle_scales and unswizzle_scales.
#include "ops/scale_layouts.h"

#include <string>

#include "ops/checked.h"

namespace mxo {
namespace {

bool takes_groups(ScaleLayout layout) {
  return layout == ScaleLayout::m_groups || layout == ScaleLayout::k_groups;
}

template <typename Scales, typename Blocked>
void check_layout(const Backend& backend, const Check& check, const AnyView<Scales>& scales,
                  const AnyView<Blocked>& blocked, const Operand& group_ends, ScaleLayout layout) {
  const int rank = layout == ScaleLayout::per_group_3d ? 3 : 2;
  check.rank("scales", scales, rank);
  check.dtype("scales", scales, {Dtype::e8m0, Dtype::u8});
  check.dtype("blocked", blocked, {Dtype::e8m0, Dtype::u8});
  if (takes_groups(layout)) {
    check.that(group_ends.given(), "group_ends: missing, this layout needs i32 [G]");
    check.group_ends(backend, group_ends, scales.extent[layout == ScaleLayout::m_groups ? 0 : 1]);
  } else {
    check.that(!group_ends.given(), "group_ends: found, needs layout m_groups or k_groups");
  }
  check.shape("blocked", blocked,
              blocked_shape(layout, {scales.extent, scales.extent + rank}, group_ends.extent[0]));
  check.that(blocked.contiguous(), "blocked: found strides, needs contiguous bytes");
}

}  // namespace

std::vector<Index> blocked_shape(ScaleLayout layout, const std::vector<Index>& scales,
                                 Index groups) {
  const Index rows = scales[scales.size() - 2];
  const Index columns = scales[scales.size() - 1];
  switch (layout) {
    case ScaleLayout::m_groups: return {rows + kTileRows * groups, round_up(columns, kTileColumns)};
    case ScaleLayout::k_groups: return {round_up(rows, kTileRows), columns + kTileColumns * groups};
    case ScaleLayout::per_group_3d: return {scales[0], blocked_bytes(rows, columns)};
    case ScaleLayout::blocked: break;
  }
  return {blocked_bytes(rows, columns)};
}

void swizzle_scales(Backend& backend, const SwizzleScales& op) {
  const Check check("swizzle_scales");
  check_layout(backend, check, op.scales, op.blocked, op.group_ends, op.layout);
  check.apart("blocked", op.blocked, "scales", op.scales);
  if (op.group_ends.given()) check.apart("blocked", op.blocked, "group_ends", op.group_ends);
  Checked::run(backend, op);
}

void unswizzle_scales(Backend& backend, const UnswizzleScales& op) {
  const Check check("unswizzle_scales");
  check_layout(backend, check, op.scales, op.blocked, op.group_ends, op.layout);
  check.apart("scales", op.scales, "blocked", op.blocked);
  if (op.group_ends.given()) check.apart("scales", op.scales, "group_ends", op.group_ends);
  Checked::run(backend, op);
}

}  // namespace mxo
