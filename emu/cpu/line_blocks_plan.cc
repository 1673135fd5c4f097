// Orientation, flattening and tile sizes of blocks within a row or a column.
#include "emu/cpu/line_blocks_plan.h"

#include <algorithm>
#include <utility>

#include "emu/cpu/codec_kernels.h"

namespace mxo::cpu {
namespace {

void transpose(Plane& plane) {
  std::swap(plane.extent[1], plane.extent[2]);
  std::swap(plane.stride[1], plane.stride[2]);
}

void flatten(Plane& plane) {
  plane.extent[2] *= plane.extent[0] * plane.extent[1];
  plane.extent[0] = plane.extent[1] = 1;
}

constexpr Index kFlatColumns = 32768;  // of a tile that is read and written in place
constexpr Index kWideColumns = 1024;   // of other tiles: rows and copies stay in second caches
constexpr Index kCopiedRows = 128;     // two cache lines of a transposed result
constexpr Index kHighRows = 512;       // of blocks in columns: 16 scales of a column fill a piece
constexpr Index kTilesEach = 4;        // of a thread: fewer would leave some without work
constexpr Index kCodesApart = 64;      // rows of copies a power of two apart would share cache sets

}  // namespace

LineBlocksPlan::LineBlocksPlan(Plane wide, Plane small, Plane shared, BlockAxis along, Index size,
                               int threads)
    : x(wide), codes(small), scales(shared), axis(along), block(size) {
  if (x.stride[2] != 1 && x.stride[1] == 1) {
    transpose(x);
    transpose(codes);
    transpose(scales);
    axis = axis == BlockAxis::rows ? BlockAxis::columns : BlockAxis::rows;
  }
  const bool columns = axis == BlockAxis::columns;
  if (columns && x.dense() && codes.dense() && scales.dense()) {
    flatten(x);
    flatten(codes);
    flatten(scales);
  }
  copies_x = x.stride[2] != 1;
  copies_codes = codes.stride[2] != 1;
  copies_scales = scales.stride[2] != 1;
  const bool in_place = !copies_x && !copies_codes && !copies_scales;
  if (columns) {
    const Index width = in_place ? kFlatColumns : kWideColumns;
    tile_rows = in_place ? 4 : kCopiedRows;
    tile_columns = std::max(block, width / block * block);
  } else {
    tile_rows = block;
    tile_columns = kWideColumns;
  }
  tile_columns = std::max<Index>(std::min(tile_columns, x.extent[2]), 1);
  if (columns || in_place) return;
  for (Index rows = kHighRows; rows >= kCopiedRows; rows /= 2) {
    tile_rows = std::max(block, rows / block * block);
    if (tiles() >= kTilesEach * threads) break;
  }
}

Index LineBlocksPlan::x_bytes() const {
  return copies_x ? tile_rows * tile_columns * x.element_bytes : 0;
}

Index LineBlocksPlan::codes_bytes() const {
  return copies_codes ? tile_rows * (tile_columns + kCodesApart) : 0;
}

std::size_t LineBlocksPlan::workspace() const {
  const Index scales_bytes = copies_scales ? ceil_div(tile_rows * tile_columns, block) : 0;
  return static_cast<std::size_t>(round_up(x_bytes() + codes_bytes() + scales_bytes, 64));
}

Tile<std::byte> LineBlocksPlan::codes_copy(std::byte* workspace) const {
  return {workspace + x_bytes(), tile_columns + kCodesApart, 1};
}

Tile<std::byte> LineBlocksPlan::scales_copy(std::byte* workspace) const {
  const Index apart = axis == BlockAxis::columns ? tile_columns / block : tile_columns;
  return {workspace + x_bytes() + codes_bytes(), apart, 1};
}

LineBlocksTile::LineBlocksTile(const LineBlocksPlan& plan, Index number) {
  expert = number / (plan.row_tiles() * plan.column_tiles());
  number %= plan.row_tiles() * plan.column_tiles();
  // Tiles below each other write transposed codes to the same pages, whose addresses take time.
  const bool down = plan.copies_codes;
  const Index across = down ? number / plan.row_tiles() : number % plan.column_tiles();
  row = (down ? number % plan.row_tiles() : number / plan.column_tiles()) * plan.tile_rows;
  column = across * plan.tile_columns;
  rows = std::min(plan.tile_rows, plan.x.extent[1] - row);
  columns = std::min(plan.tile_columns, plan.x.extent[2] - column);
}

}  // namespace mxo::cpu
