// swizzle_scales and unswizzle_scales, one byte at a time.
#include "ops/scale_layouts.h"
#include "emu/reference/blocked_parts.h"
#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const SwizzleScales& op) {
  const auto scales = batched<const std::uint8_t>(op.scales);
  auto* blocked = static_cast<std::uint8_t*>(op.blocked.data);
  for (Index i = 0; i < op.blocked.elements(); ++i) blocked[i] = 0;
  for_each_part(op.layout, op.scales, op.group_ends, [&](const BlockedPart& part) {
    const Index tiles = ceil_div(part.columns, kTileColumns);
    for (Index r = 0; r < part.rows; ++r) {
      for (Index c = 0; c < part.columns; ++c) {
        blocked[part.base + blocked_offset(r, c, tiles)] =
            scales(part.expert, part.first_row + r, part.first_column + c);
      }
    }
  });
}

void ReferenceBackend::run(const UnswizzleScales& op) {
  const auto scales = batched<std::uint8_t>(op.scales);
  const auto* blocked = static_cast<const std::uint8_t*>(op.blocked.data);
  for_each_part(op.layout, op.scales, op.group_ends, [&](const BlockedPart& part) {
    const Index tiles = ceil_div(part.columns, kTileColumns);
    for (Index r = 0; r < part.rows; ++r) {
      for (Index c = 0; c < part.columns; ++c) {
        scales(part.expert, part.first_row + r, part.first_column + c) =
            blocked[part.base + blocked_offset(r, c, tiles)];
      }
    }
  });
}

}  // namespace mxo
