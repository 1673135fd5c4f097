// The self-contained blocked matrices that make up a scale layout.
#pragma once

#include "formats/any_view.h"
#include "formats/scale_layout.h"

namespace mxo {

/// Scales [expert, first_row .. + rows, first_column .. + columns] lie blocked from byte `base`.
struct BlockedPart {
  Index expert = 0;
  Index first_row = 0;
  Index first_column = 0;
  Index rows = 0;
  Index columns = 0;
  Index base = 0;
};

/// Calls fn(BlockedPart) in the order of their bases.
template <typename Void, typename Fn>
void for_each_part(ScaleLayout layout, const AnyView<Void>& scales, const Operand& group_ends,
                   Fn&& fn) {
  const Index rows = scales.extent[scales.rank - 2];
  const Index columns = scales.extent[scales.rank - 1];
  if (layout == ScaleLayout::blocked) return fn(BlockedPart{0, 0, 0, rows, columns, 0});
  if (layout == ScaleLayout::per_group_3d) {
    for (Index e = 0; e < scales.extent[0]; ++e) {
      fn(BlockedPart{e, 0, 0, rows, columns, e * blocked_bytes(rows, columns)});
    }
    return;
  }
  const auto ends = group_ends.as<const std::int32_t, 1>();
  Index start = 0;
  Index base = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    const Index size = ends(g) - start;
    const BlockedPart part = layout == ScaleLayout::m_groups
                                 ? BlockedPart{0, start, 0, size, columns, base}
                                 : BlockedPart{0, 0, start, rows, size, base};
    fn(part);
    base += blocked_bytes(part.rows, part.columns);
    start = ends(g);
  }
}

}  // namespace mxo
