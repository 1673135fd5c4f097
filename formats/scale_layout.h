// Index maps of scale storage: row-major, and the 128x4 tiles that block-scaled MMAs read.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/tensor_view.h"

namespace mxo {

inline constexpr Index kTileRows = 128;
inline constexpr Index kTileColumns = 4;
inline constexpr Index kTileBytes = kTileRows * kTileColumns;

/// Where the scales of several matrices lie.
enum class ScaleLayout : std::uint8_t {
  blocked,       ///< one matrix, tiles row-major over (rows / 128, columns / 4)
  m_groups,      ///< groups split the rows; each group padded to 128 rows
  k_groups,      ///< groups split the columns; each group padded to 4 columns, self-contained
  per_group_3d,  ///< one blocked matrix per expert
};

/// Byte offset of element (row, column) in a blocked matrix of `column_tiles` = ceil(columns/4)
/// tiles a row.  A tile is 32 rows x 16 bytes: row % 32 chooses the 16-byte line, row / 32 % 4
/// the word in it, column % 4 the byte.  (torchao to_blocked; cuBLAS block-scaling layout.)
MXO_HD constexpr Index blocked_offset(Index row, Index column, Index column_tiles) {
  return ((row / kTileRows) * column_tiles + column / kTileColumns) * kTileBytes + (row % 32) * 16 +
         (row % kTileRows) / 32 * kTileColumns + column % kTileColumns;
}

/// Bytes of a blocked matrix, padding included.
MXO_HD constexpr Index blocked_bytes(Index rows, Index columns) {
  return round_up(rows, kTileRows) * round_up(columns, kTileColumns);
}

static_assert(blocked_offset(0, 4, 2) == 512 && blocked_offset(33, 5, 2) == 533);
static_assert(blocked_offset(127, 7, 2) == 1023 && blocked_offset(200, 6, 2) == 1674);

}  // namespace mxo
