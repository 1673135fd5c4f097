// Which rows share scales: blocks from row 0 on, or from the first row of each group.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/scaled_tensor.h"

namespace mxo {

/// Rows [first, end) of a matrix, whose scales are row `scales` of the scales.
struct BlockRows {
  Index first;
  Index end;
  Index scales;
};

/// The blocks of `height` rows (kWhole: all rows, of the group where there are groups).
inline std::vector<BlockRows> block_rows(const Operand& group_ends, Index rows, Index height) {
  const bool grouped = group_ends.given();
  const auto ends = group_ends.as<const std::int32_t, 1>();
  const Index groups = grouped ? ends.extent[0] : 1;
  std::vector<BlockRows> blocks;
  Index start = 0;
  for (Index g = 0; g < groups; ++g) {
    const Index end = grouped ? ends(g) : rows;
    // A whole axis is a block even if it is empty.
    if (height == kWhole) blocks.push_back({start, end, g});
    for (Index r = start; height != kWhole && r < end; r += height) {
      blocks.push_back({r, std::min(r + height, end), static_cast<Index>(blocks.size())});
    }
    start = end;
  }
  return blocks;
}

/// Columns of a block that may be the whole row; at least 1, since it is a divisor.
inline Index block_columns(const BlockExtents& block, Index columns) {
  return block.columns == kWhole ? std::max<Index>(columns, 1) : block.columns;
}

/// Scales of one row of blocks.
inline Index blocks_of_row(const BlockExtents& block, Index columns) {
  return block.columns == kWhole ? 1 : ceil_div(columns, block.columns);
}

}  // namespace mxo
