// Where a scale lies among those of another library's layout: host and device.
#pragma once

#include "formats/host_device.h"
#include "ops/packed_scales.h"

namespace mxo {

inline constexpr Index kPackedElements = 4;  // of 16 bytes
inline constexpr Index kPackedTileRows = 8;

/// First byte in the packed buffer of scale [e, m, k] of matrices of rows x columns scales.
MXO_HD constexpr Index packed_byte(PackedLayout layout, Index rows, Index columns, Index e, Index m,
                                   Index k) {
  const Index wide = round_up(rows, kPackedElements);
  const Index deep = round_up(columns, kPackedElements) / kPackedElements;
  switch (layout) {
    case PackedLayout::packed_ue8m0:
      return ((e * deep + k / kPackedElements) * wide + m) * 4 + k % kPackedElements;
    case PackedLayout::tiles_8x4:
      return (m / kPackedTileRows * deep + k / kPackedElements) * 32 + m % kPackedTileRows * 4 +
             k % kPackedElements;
    default: return ((e * columns + k) * wide + m) * 4;
  }
}

}  // namespace mxo
