// Bands of rows that share scales: how quantisers of blocks of any extents are cut into tasks.
#pragma once

#include <algorithm>
#include <vector>

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/line_blocks_plan.h"
#include "emu/reference/block_rows.h"

namespace mxo::cpu {

/// Rows that share scales, and the columns of one task.  A block of the band is `width` columns
/// by all its rows; its scale lies at scales + block * scale_stride, in elements.
struct Band {
  Tile<std::byte> x;
  Tile<std::byte> codes;
  Index rows;
  Index columns;
  Index width;
  std::byte* scales;
  Index scale_stride;
  const float* given = nullptr;  ///< of the first block; null where amax decides
  Index given_stride = 0;
};

inline int team_of(Index tasks, int threads) {
  return static_cast<int>(std::clamp<Index>(tasks, 1, threads));
}

/// x, codes and scales of one call, its bands, and how columns are cut.
struct BandPlan {
  Plane x;
  Plane codes;
  Plane scales;
  Plane given;
  Index width;  ///< of a block
  std::vector<BlockRows> bands;
  Index chunk;  ///< columns of a task: whole blocks
  Index chunks;

  BandPlan(Plane wide, Plane small, Plane shared, Plane told, const Operand& group_ends,
           const BlockExtents& block)
      : x(wide),
        codes(small),
        scales(shared),
        given(told),
        width(mxo::block_columns(block, wide.extent[2])),
        bands(block_rows(group_ends, wide.extent[1], block.rows)),
        chunk(std::max(width, kPanelColumns / width * width)) {
    const bool empty_row = wide.extent[2] == 0 && block.columns == kWhole;
    chunks = empty_row ? 1 : ceil_div(wide.extent[2], chunk);
  }
  /// Tasks of up to `columns` columns.
  void widen(Index columns) {
    chunk = std::max(chunk, columns / width * width);
    if (x.extent[2] > 0) chunks = ceil_div(x.extent[2], chunk);
  }
  /// Cuts bands into fewer rows each, where a band need not be seen whole.
  void slice(Index rows) {
    std::vector<BlockRows> slices;
    for (const BlockRows& band : bands) {
      for (Index r = band.first; r < band.end; r += rows) {
        slices.push_back({r, std::min(r + rows, band.end), band.scales});
      }
    }
    bands = std::move(slices);
  }
  Index tasks() const { return x.extent[0] * static_cast<Index>(bands.size()) * chunks; }
  Band band(Index task) const {
    const Index k = task % chunks * chunk;
    const auto count = static_cast<Index>(bands.size());
    const BlockRows& rows = bands[static_cast<std::size_t>(task / chunks % count)];
    const Index e = task / chunks / count;
    return {x.at(e, rows.first, k),
            codes.at(e, rows.first, k),
            rows.end - rows.first,
            std::min(chunk, x.extent[2] - k),
            width,
            scales.at(e, rows.scales, k / width).data,
            scales.stride[2],
            given.data == nullptr
                ? nullptr
                : reinterpret_cast<const float*>(given.at(e, rows.scales, k / width).data),
            given.stride[2]};
  }
};

}  // namespace mxo::cpu
