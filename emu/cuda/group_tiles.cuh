// Tiles of rows that restart at each group.
#pragma once

#include "emu/cuda/group_ends.cuh"

namespace mxo::cuda {

struct TileRows {
  Index first = 0;
  Index past = 0;  ///< first == past: there is no such tile
};

/// Tile `t` counted over the groups in order, from what count_units() left.
struct GroupTiles {
  Ends ends;
  const std::int64_t* before;  // of each group, the total last
  Index unit;
  Index rows;  // that the ends may reach

  /// The group of unit `t`; the number of groups if there are not so many units.
  __device__ Index group(Index t) const {
    Index first = 0;
    Index past = ends.extent[0];
    while (first < past) {
      const Index middle = (first + past) / 2;
      if (before[middle + 1] > t) {
        past = middle;
      } else {
        first = middle + 1;
      }
    }
    return first;
  }
  __device__ TileRows operator()(Index t) const {
    const Index g = group(t);
    if (g == ends.extent[0]) return {};
    const Index first = max(start_of(ends, g) + (t - before[g]) * unit, Index{0});
    const Index past = min(min(first + unit, static_cast<Index>(ends(g))), rows);
    return {first, max(first, past)};
  }
};

}  // namespace mxo::cuda
