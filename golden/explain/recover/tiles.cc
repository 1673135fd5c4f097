// Tiles of an output whose rows and columns are exchanged.
#include <algorithm>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr Index kLeast = 8;  ///< elements that differ and fit, in all tiles together
constexpr Index kLeastInTile = 4;

/// A rectangle of the output.
struct TileBox {
  Index row;
  Index column;
  Index height;
  Index width;
  /// Flat index of its element k, row by row.
  Index at(const Output& o, Index k) const {
    return (row + k / width) * o.columns + column + k % width;
  }
};

/// Where element k of a tile [height, width] comes from within it.
using Order = Index (*)(Index k, Index height, Index width);
Index column_major(Index k, Index height, Index width) { return k % height * width + k / height; }
Index row_major(Index k, Index height, Index width) { return k % width * height + k / width; }

/// Elements of the tile that differ, if all of it is what the order gives; else 0.
Index fixed(const Output& o, const TileBox& tile, Order order) {
  Index differing = 0;
  for (Index k = 0; k < tile.height * tile.width; ++k) {
    const Index i = tile.at(o, k);
    const Mark mark = o.marks[static_cast<std::size_t>(i)];
    if (mark == Mark::settled) return 0;
    if (o.came(i) != o.wanted(tile.at(o, order(k, tile.height, tile.width)))) return 0;
    differing += mark == Mark::differs;
  }
  return differing;
}

/// Rows at which tiles of a height may begin: of each matrix, or of each group.
std::vector<Index> tops(const Output& o, Index height, bool of_groups) {
  std::vector<Index> found;
  const bool split = of_groups || o.group == "expert";
  const std::vector<Index> ends = split ? o.ends : std::vector<Index>{o.owed};
  Index begin = 0;
  for (const Index end : ends) {
    for (Index r = begin; r + height <= std::min(end, o.owed); r += height) found.push_back(r);
    begin = end;
  }
  return found;
}

/// The least rectangle of all that differs.
TileBox bounds(const Output& o) {
  Index top = o.owed;
  Index bottom = 0;
  Index left = o.columns;
  Index right = 0;
  for (Index i = 0; i < o.owed * o.columns; ++i) {
    if (o.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    top = std::min(top, i / o.columns);
    bottom = std::max(bottom, i / o.columns + 1);
    left = std::min(left, i % o.columns);
    right = std::max(right, i % o.columns + 1);
  }
  return {top, left, bottom - top, right - left};
}

/// Tiles of one shape, read in one order.
struct Tiling {
  std::vector<TileBox> tiles;  ///< those that fit
  Order order = column_major;
  Index elements = 0;  ///< that differ, in them
};

/// Tiles like `tile`, from it on beside each other up to column `end`.
void add_fitting(const Output& o, TileBox tile, Index end, Tiling& found) {
  // Most tiles fail in their second element.
  const Index second = found.order(1, tile.height, tile.width);
  const Index source = second / tile.width * o.columns + second % tile.width;
  for (; tile.column + tile.width <= end; tile.column += tile.width) {
    const Index first = tile.row * o.columns + tile.column;
    if (o.came(first + 1) != o.wanted(first + source)) continue;
    const Index here = fixed(o, tile, found.order);
    if (here < kLeastInTile) continue;
    found.elements += here;
    found.tiles.push_back(tile);
  }
}

Claim claim_of(Output& output, const Tiling& tiling) {
  std::vector<std::uint8_t> in(output.marks.size());
  for (const TileBox& tile : tiling.tiles) {
    for (Index k = 0; k < tile.height * tile.width; ++k) {
      in[static_cast<std::size_t>(tile.at(output, k))] = 1;
    }
  }
  const Place place = place_of(output, [&](Index i) {
    return in[static_cast<std::size_t>(i)] != 0 &&
           output.marks[static_cast<std::size_t>(i)] == Mark::differs;
  });
  const TileBox& shape = tiling.tiles.front();
  const bool one = tiling.tiles.size() == 1;
  Claim claim;
  claim.id = "order.tiles_transposed";
  claim.sentence = (one ? "a tile of " : "tiles of ") + std::to_string(shape.height) + " x " +
                   std::to_string(shape.width) + (one ? " is" : " are") +
                   (shape.height == shape.width    ? " transposed"
                    : tiling.order == column_major ? " written column-major"
                                                   : " read column-major") +
                   ", in " + place.words;
  claim.where = place.where;
  claim.elements = static_cast<double>(tiling.elements);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i]) output.settle(static_cast<Index>(i));
  }
  return claim;
}

constexpr Index kSides[] = {4, 8, 16, 32, 64, 128};

}  // namespace

std::vector<Claim> recover_tiles(Output& output) {
  if (output.left < kLeast) return {};
  Tiling best;
  const auto consider = [&best](Tiling found) {
    if (found.elements > best.elements) best = std::move(found);
  };
  for (const bool of_groups : {false, true}) {
    if (of_groups && (output.ends.size() < 2 || output.group == "expert")) continue;  // the same
    for (const Index height : kSides) {
      for (const Index width : kSides) {
        for (const Order order : {column_major, row_major}) {
          Tiling found{{}, order, 0};
          for (const Index row : tops(output, height, of_groups)) {
            if (!output.differs_in(row * output.columns, height * output.columns)) continue;
            add_fitting(output, {row, 0, height, width}, output.columns, found);
          }
          consider(std::move(found));
        }
      }
    }
  }
  const TileBox all = bounds(output);
  for (const Order order : {column_major, row_major}) {
    Tiling found{{}, order, 0};
    add_fitting(output, all, all.column + all.width, found);
    consider(std::move(found));
  }
  if (best.elements < kLeast) return {};
  return {claim_of(output, best)};
}

}  // namespace mxo
