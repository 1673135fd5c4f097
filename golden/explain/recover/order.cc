// The right values in another order.
#include <algorithm>

#include "formats/scale_layout.h"
#include "golden/explain/recover/model.h"
#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

using Source = std::function<Index(Index)>;  ///< where the value of element i is owed

constexpr Index kLeast = 8;  ///< elements that differ: fewer fit some order by chance

/// One order: its name, what it is, and where each value comes from.
struct Order {
  std::string id;
  std::string phrase;
  Source from;
};

Index matrix_rows(const Output& output) {
  const Tensor& t = *output.expected;
  return t.rank() < 2 ? 1 : t.shape()[t.shape().size() - 2];
}

void add_lanes(const Output& output, std::vector<Order>& list) {
  const Index columns = output.columns;
  for (const Index g : {2, 4, 8, 16, 32, 64, 128}) {
    if (columns % g != 0) continue;
    const std::string every = std::to_string(g);
    list.push_back({"order.reversed_" + every, "neighbours are reversed in runs of " + every,
                    [g](Index i) { return i / g * g + (g - 1 - i % g); }});
    list.push_back({"order.exchanged_halves_" + every,
                    "the halves of every " + every + " neighbours are exchanged",
                    [g](Index i) { return i / g * g + (i % g + g / 2) % g; }});
    list.push_back({"order.interleaved_" + every,
                    "the halves of every " + every + " neighbours are interleaved", [g](Index i) {
                      const Index k = i % g;
                      return i / g * g + (k % 2) * (g / 2) + k / 2;
                    }});
    list.push_back({"order.deinterleaved_" + every,
                    "even and odd ones of every " + every + " neighbours are set apart",
                    [g](Index i) {
                      const Index k = i % g;
                      return i / g * g + (k < g / 2 ? 2 * k : 2 * (k - g / 2) + 1);
                    }});
  }
  if (columns % 2 == 0) {
    list.push_back({"order.halves", "the halves of each row are exchanged", [columns](Index i) {
                      const Index c = i % columns;
                      return i - c + (c + columns / 2) % columns;
                    }});
    list.push_back(
        {"order.interleaved", "the halves of each row are interleaved", [columns](Index i) {
           const Index c = i % columns;
           return i - c + (c % 2) * (columns / 2) + c / 2;
         }});
  }
  for (const Index by : {1, 2, 4, 8, 16, 32, 64, 128}) {
    if (by >= columns) continue;
    for (const Index sign : {-1, 1}) {
      const Index d = sign * by;
      list.push_back({"order.columns_shifted",
                      "each row is shifted by " + std::to_string(by) +
                          (sign == 1 ? " to the left" : " to the right"),
                      [columns, d](Index i) {
                        return i / columns * columns + (i % columns + d + columns) % columns;
                      }});
    }
  }
}

/// Which element of a matrix of whole tiles lies at byte `k` of its 128x4 tiles.
Index linear_index(Index k, Index columns) {
  const Index tiles = columns / kTileColumns;
  const Index tile = k / kTileBytes;
  const Index in = k % kTileBytes;
  const Index row = tile / tiles * kTileRows + in / 16 + in % 16 / kTileColumns * 32;
  return row * columns + tile % tiles * kTileColumns + in % kTileColumns;
}

void add_matrices(const Output& output, std::vector<Order>& list) {
  const Index columns = output.columns;
  const Index rows = matrix_rows(output);
  const Index matrix = rows * columns;
  list.push_back({"order.transposed", "it is written column-major", [=](Index i) {
                    const Index k = i % matrix;
                    return i - k + k % rows * columns + k / rows;
                  }});
  list.push_back({"order.untransposed", "it is read column-major", [=](Index i) {
                    const Index k = i % matrix;
                    return i - k + k % columns * rows + k / columns;
                  }});
  // The other way of a tiled order: which element of the matrix lies at each byte.
  const Index tiles = ceil_div(columns, kTileColumns);
  if (rows % kTileRows == 0 && columns % kTileColumns == 0) {
    list.push_back({"order.tiles", "it is written in 128x4 tiles", [=](Index i) {
                      const Index k = i % matrix;
                      return i - k + linear_index(k, columns);
                    }});
    list.push_back({"order.untiled", "it is written as if its 128x4 tiles were rows", [=](Index i) {
                      const Index k = i % matrix;
                      return i - k + blocked_offset(k / columns, k % columns, tiles);
                    }});
  }
  const Tensor& t = *output.expected;
  if (t.rank() == 3) {
    const Index outer = t.extent(0);
    list.push_back({"order.outer_exchanged", "its first two axes are exchanged", [=](Index i) {
                      const Index c = i % columns;
                      const Index r = i / columns;
                      return (r % outer * rows + r / outer) * columns + c;
                    }});
  }
  if (t.rank() == 1 && columns > 16) {  // a matrix of tiles, given flat
    for (const Index width : {2, 4, 8, 16, 32, 64, 128, 256}) {
      if (columns % width != 0) continue;
      const Index height = columns / width;
      list.push_back({"order.transposed",
                      "it is written column-major, " + std::to_string(width) + " a row",
                      [=](Index i) { return i % height * width + i / height; }});
      if (width % kTileColumns != 0 || height % kTileRows != 0) continue;
      const Index across = width / kTileColumns;
      list.push_back({"order.untiled",
                      "the rows of its matrix, " + std::to_string(width) +
                          " a row, take the place of 128x4 tiles",
                      [=](Index i) { return blocked_offset(i / width, i % width, across); }});
    }
  }
}

}  // namespace

std::vector<Claim> recover_order(Output& output) {
  std::vector<Claim> claims;
  std::vector<Order> list;
  add_matrices(output, list);
  add_lanes(output, list);
  for (const Order& order : list) {
    if (output.left < kLeast) break;
    const auto claim = claim_model(
        output, [&](Index i) { return output.wanted(order.from(i)); }, order.id, order.phrase,
        kLeast);
    if (claim) claims.push_back(*claim);
  }
  return claims;
}

}  // namespace mxo
