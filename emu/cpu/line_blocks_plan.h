// How blocks within one row or one column are cut into tiles that the kernels can take.
#pragma once

#include <cstddef>

#include "emu/cpu/tiles.h"
#include "formats/any_view.h"
#include "ops/quantize.h"

namespace mxo::cpu {

/// Along which axis neighbours share a scale.
enum class BlockAxis : std::uint8_t {
  columns,  ///< neighbours in a row
  rows,     ///< neighbours in a column
};

/// One operand as [E, R, K].
struct Plane {
  std::byte* data = nullptr;  ///< of an input: read only
  Index element_bytes = 1;
  Index extent[3] = {};
  Index stride[3] = {};

  Tile<std::byte> at(Index e, Index r, Index k) const {
    return {data + (e * stride[0] + r * stride[1] + k * stride[2]) * element_bytes, stride[1],
            stride[2]};
  }
  bool dense() const {
    return stride[2] == 1 && stride[1] == extent[2] && stride[0] == extent[1] * extent[2];
  }
};

template <typename Void>
Plane plane_of(const AnyView<Void>& view) {
  Plane plane;
  plane.data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data)));
  plane.element_bytes = static_cast<Index>(size_of(view.dtype));
  const int lead = 3 - view.rank;
  for (int i = 0; i < 3; ++i) {
    plane.extent[i] = i < lead ? 1 : view.extent[i - lead];
    plane.stride[i] = i < lead ? 0 : view.stride[i - lead];
  }
  if (lead == 1) plane.stride[0] = plane.extent[1] * plane.extent[2];  // one matrix: dense or not
  return plane;
}

/// The wide operand x, its codes and its scales, transposed if that makes x's columns adjacent, and
/// flattened to one row where rows are contiguous.
struct LineBlocksPlan {
  Plane x;
  Plane codes;
  Plane scales;
  BlockAxis axis;
  Index block;
  Index tile_rows = 0;         ///< whole blocks
  Index tile_columns = 0;      ///< whole blocks
  bool copies_x = false;       ///< columns of x are not adjacent
  bool copies_codes = false;   ///< nor those of codes
  bool copies_scales = false;  ///< nor those of scales

  LineBlocksPlan(Plane x, Plane codes, Plane scales, BlockAxis axis, Index block, int threads);
  Index tiles() const { return x.extent[0] * row_tiles() * column_tiles(); }
  Index row_tiles() const { return ceil_div(x.extent[1], tile_rows); }
  Index column_tiles() const { return ceil_div(x.extent[2], tile_columns); }
  /// Bytes of workspace that one thread needs.
  std::size_t workspace() const;
  /// Where copies lie in a thread's workspace; rows are tile_columns apart.
  Tile<std::byte> x_copy(std::byte* workspace) const { return {workspace, tile_columns, 1}; }
  Tile<std::byte> codes_copy(std::byte* workspace) const;
  Tile<std::byte> scales_copy(std::byte* workspace) const;

 private:
  Index x_bytes() const;
  Index codes_bytes() const;
};

/// One tile of a plan.
struct LineBlocksTile {
  Index expert, row, column, rows, columns;
  LineBlocksTile(const LineBlocksPlan& plan, Index number);
};

}  // namespace mxo::cpu
