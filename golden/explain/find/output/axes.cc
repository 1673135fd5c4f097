// The axes of a tensor, or of tiles of it, in another order.
#include <bit>

#include "formats/scale_layout.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kMostTrials = 1 << 20;  ///< elements that are looked at before it is given up
constexpr Index kMostElements = Index{1} << 20;  ///< of a tensor: scales, not codes
constexpr Index kLeast = 16;        ///< elements that differ: fewer fit some order by chance
constexpr Index kLeastOfTiles = 8;  ///< elements that differ and fit, in all tiles together
constexpr Index kLeastInTile = 4;
constexpr Index kSides[] = {4, 8, 16, 32, 64, 128};  ///< of tiles

/// Units of as many elements, a power of two, in each of which the same order of axes is looked
/// for: bit b of the index of an element is bit bits()[b] of the index it came from.
class AxisSearch {
 public:
  AxisSearch(const Output& output, Index unit)
      : o_(output),
        from_(static_cast<std::size_t>(unit)),
        taken_(static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(unit)))) {
    for (Index at = 0; at + unit <= o_.compared_rows * o_.columns; at += unit) {
      if (o_.differs_in(at, unit)) units_.push_back(at);
    }
  }
  bool found() { return holds(0, 1) && fits(0); }
  const std::vector<int>& bits() const { return bits_; }

 private:
  /// Whether elements [first, end) of every unit come from where `from_` says.
  bool holds(Index first, Index end) {
    for (Index i = first; i < end; ++i) {
      for (const Index at : units_) {
        ++trials_;
        if (o_.actual_bits(at + i) != o_.expected_bits(at + nth(from_, i))) return false;
      }
    }
    return true;
  }
  bool fits(std::size_t bit) {
    if (bit == taken_.size()) return true;
    const Index half = Index{1} << bit;
    // Its own place first: what cannot be told apart moved no further than it must.
    for (std::size_t n = 0; n < taken_.size(); ++n) {
      const std::size_t b = n == 0 ? bit : n <= bit ? n - 1 : n;
      if (taken_[b] || trials_ > kMostTrials) continue;
      for (Index i = 0; i < half; ++i) {
        nth(from_, half + i) = nth(from_, i) | (Index{1} << b);
      }
      if (!holds(half, 2 * half)) continue;
      taken_[b] = 1;
      bits_.push_back(static_cast<int>(b));
      if (fits(bit + 1)) return true;
      bits_.pop_back();
      taken_[b] = 0;
    }
    return false;
  }

  const Output& o_;
  std::vector<Index> units_;
  std::vector<Index> from_;
  std::vector<std::uint8_t> taken_;
  std::vector<int> bits_;
  Index trials_ = 0;
};

/// "[4, 32, 4] with its axes in the order 1, 0, 2": runs of bits that stay together are axes.
std::string axes_in_words(const std::vector<int>& bits) {
  struct Axis {
    int source;
    int length;
  };
  std::vector<Axis> axes;  // as they are written, innermost first
  for (const int b : bits) {
    if (!axes.empty() && axes.back().source + axes.back().length == b) {
      ++axes.back().length;
    } else {
      axes.push_back({b, 1});
    }
  }
  std::reverse(axes.begin(), axes.end());
  std::vector<Axis> given = axes;
  std::sort(given.begin(), given.end(),
            [](const Axis& a, const Axis& b) { return a.source > b.source; });
  std::string shape;
  std::string order;
  for (const Axis& a : given) shape += ", " + std::to_string(Index{1} << a.length);
  for (const Axis& a : axes) {
    const auto outer = std::count_if(given.begin(), given.end(),
                                     [&](const Axis& g) { return g.source > a.source; });
    order += ", " + std::to_string(outer);
  }
  return "[" + shape.substr(2) + "] with its axes in the order " + order.substr(2);
}

/// A rectangle of the output.
struct TileBox {
  Index row;
  Index column;
  Index height;
  Index width;
  Index elements() const { return height * width; }
  /// Flat index of its element k, row by row.
  Index at(const Output& o, Index k) const {
    return (row + k / width) * o.columns + column + k % width;
  }
  /// Which of its elements is expected where k came: written column by column, or read so.
  Index source(Index k, bool written) const {
    return written ? k % height * width + k / height : k % width * height + k / width;
  }
};

/// Tiles of one shape that are transposed.
struct Tiling {
  bool written;
  std::vector<TileBox> tiles;
  Index elements = 0;  ///< that differ, in them
};

/// Elements of the tile that differ, if all of it is transposed; else 0.
Index transposed(const Output& o, const TileBox& tile, bool written) {
  Index differing = 0;
  for (Index k = 0; k < tile.elements(); ++k) {
    const Index i = tile.at(o, k);
    if (o.actual_bits(i) != o.expected_bits(tile.at(o, tile.source(k, written)))) return 0;
    if (nth(o.marks, i) == Mark::explained) return 0;
    differing += o.differs(i);
  }
  return differing;
}

/// Tiles like `tile`, from it on beside each other up to column `end`.
void add_transposed(const Output& o, TileBox tile, Index end, Tiling& found) {
  // Most tiles fail in their second element.
  const Index second = tile.at(o, tile.source(1, found.written)) - tile.at(o, 0);
  for (; tile.column + tile.width <= end; tile.column += tile.width) {
    const Index first = tile.at(o, 0);
    if (o.actual_bits(first + 1) != o.expected_bits(first + second)) continue;
    const Index here = transposed(o, tile, found.written);
    if (here < kLeastInTile) continue;
    found.elements += here;
    found.tiles.push_back(tile);
  }
}

/// Rows at which tiles of a height may begin: of each matrix, or of each group.
std::vector<Index> tops(const Output& o, Index height, bool of_groups) {
  std::vector<Index> found;
  const bool split = of_groups || o.group == "expert";
  Index begin = 0;
  for (const Index end : split ? o.ends : std::vector<Index>{o.compared_rows}) {
    for (Index r = begin; r + height <= std::min(end, o.compared_rows); r += height) {
      if (o.differs_in(r * o.columns, height * o.columns)) found.push_back(r);
    }
    begin = end;
  }
  return found;
}

}  // namespace

Claims recover_axes(Output& output) {
  const Index n = output.compared_rows * output.columns;
  if (!is_unexplained(output, kLeast) || n > kMostElements) return {};
  for (const Index unit : {n, kTileBytes}) {
    if (!std::has_single_bit(static_cast<std::uint64_t>(unit)) || n % unit != 0) continue;
    AxisSearch search(output, unit);
    if (!search.found()) continue;
    return claim_place(output, {"order.axes"}, [&](const Place& place) {
      const std::string as = " written as " + axes_in_words(search.bits());
      return unit == n ? output.name + ": it is" + as
                       : "tiles of 512 are" + as + ", in " + place.words;
    });
  }
  return {};
}

Claims recover_tiles(Output& output) {
  if (output.left < kLeastOfTiles) return {};
  Tiling best{true, {}};
  const auto consider = [&best](Tiling found) {
    if (found.elements > best.elements) best = std::move(found);
  };
  for (const bool of_groups : {false, true}) {
    if (of_groups && (output.ends.size() < 2 || output.group == "expert")) continue;  // the same
    for (const Index height : kSides) {
      const std::vector<Index> rows = tops(output, height, of_groups);
      for (const Index width : kSides) {
        for (const bool written : {true, false}) {
          Tiling found{written, {}};
          for (const Index row : rows) {
            add_transposed(output, {row, 0, height, width}, output.columns, found);
          }
          consider(std::move(found));
        }
      }
    }
  }
  // One tile that is all that differs may begin anywhere.
  const Place all = place_of(output, [&](Index i) { return output.differs(i); });
  const TileBox box{all.rows.front(), all.columns.front(), all.rows.back() - all.rows.front() + 1,
                    all.columns.back() - all.columns.front() + 1};
  for (const bool written : {true, false}) {
    Tiling found{written, {}};
    add_transposed(output, box, box.column + box.width, found);
    consider(std::move(found));
  }
  if (best.elements < kLeastOfTiles) return {};
  std::vector<std::uint8_t> in(output.marks.size());
  for (const TileBox& tile : best.tiles) {
    for (Index k = 0; k < tile.elements(); ++k) {
      nth(in, tile.at(output, k)) = 1;
    }
  }
  const TileBox& shape = best.tiles.front();
  const bool one = best.tiles.size() == 1;
  const std::string how = shape.height == shape.width ? "transposed"
                          : best.written              ? "written column-major"
                                                      : "read column-major";
  return claim_where(
      output, {"order.tiles_transposed"}, [&](Index i) { return nth(in, i) != 0; },
      [&](const Place& place) {
        return (one ? "a tile of " : "tiles of ") + std::to_string(shape.height) + " x " +
               std::to_string(shape.width) + (one ? " is " : " are ") + how + ", in " + place.words;
      });
}

}  // namespace mxo
