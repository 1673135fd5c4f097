// The axes of a tensor, or of tiles of it, in another order.
#include <bit>

#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
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
  AxisSearch(const Output& output, Index unit) : o_(output), from_(static_cast<std::size_t>(unit)) {
    for (Index at = 0; at + unit <= compared(o_); at += unit)
      if (o_.differs_in(at, unit)) units_.push_back(at);
  }
  bool found() { return holds(0, 1) && fits(); }
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
  /// Whether the bits from the next on are some of those that are left.
  bool fits() {
    const auto bit = static_cast<int>(bits_.size());
    const Index half = Index{1} << bit;
    if (half == static_cast<Index>(from_.size())) return true;
    // Its own place first: what cannot be told apart moved no further than it must.
    for (int n = -1; Index{1} << std::max(n, 0) < static_cast<Index>(from_.size()); ++n) {
      const int b = n < 0 ? bit : n;
      if (n == bit || std::ranges::count(bits_, b) > 0 || trials_ > kMostTrials) continue;
      for (Index i = 0; i < half; ++i) nth(from_, half + i) = nth(from_, i) | Index{1} << b;
      if (!holds(half, 2 * half)) continue;
      bits_.push_back(b);
      if (fits()) return true;
      bits_.pop_back();
    }
    return false;
  }

  const Output& o_;
  std::vector<Index> units_;
  std::vector<Index> from_;
  std::vector<int> bits_;
  Index trials_ = 0;
};

/// "[4, 32, 4] with its axes in the order 1, 0, 2": runs of bits that stay together are axes.
std::string axes_in_words(const std::vector<int>& bits) {
  std::vector<std::pair<int, int>> axes;  // their lowest bit and length, innermost first
  for (const int b : bits) {
    if (!axes.empty() && axes.back().first + axes.back().second == b) {
      ++axes.back().second;
    } else {
      axes.emplace_back(b, 1);
    }
  }
  std::ranges::reverse(axes);  // as they are written
  auto given = axes;
  std::ranges::sort(given, std::greater{});
  std::string shape;
  std::string order;
  for (const auto& axis : given) list_words(shape, std::to_string(Index{1} << axis.second));
  for (const auto& axis : axes)
    list_words(order, std::to_string(std::ranges::find(given, axis) - given.begin()));
  return "[" + shape + "] with its axes in the order " + order;
}

/// Tiles of one shape that are transposed: written column by column, or read so.
struct Tiling {
  const Output& o;
  Index height;
  Index width;
  bool written;
  std::vector<Index> corners = {};
  Index elements = 0;  ///< that differ, in them

  /// Element `k` of a tile, row by row, and the one that is expected there.
  Index at(Index corner, Index k) const { return corner + k / width * o.columns + k % width; }
  Index source(Index corner, Index k) const {
    return at(corner, written ? k % height * width + k / height : k % width * height + k / width);
  }
  /// The tile, if all of it is transposed.
  void take(Index corner) {
    Index differing = 0;
    for (Index n = 0; n < height * width; ++n) {
      const Index k = n < 2 ? 1 - n : n;  // most tiles fail in their second element
      const Index i = at(corner, k);
      if (o.actual_bits(i) != o.expected_bits(source(corner, k))) return;
      if (nth(o.marks, i) == Mark::explained) return;
      differing += o.differs(i);
    }
    if (differing < kLeastInTile) return;
    elements += differing;
    corners.push_back(corner);
  }
};

/// Rows at which tiles of a height may begin: of each matrix, or of each group.
std::vector<Index> tops(const Output& o, Index height, bool of_groups) {
  std::vector<Index> found;
  const bool split = of_groups || o.group == "expert";
  Index begin = 0;
  for (const Index end : split ? o.ends : std::vector<Index>{o.compared_rows}) {
    for (Index r = begin; r + height <= std::min(end, o.compared_rows); r += height)
      if (o.differs_in(r * o.columns, height * o.columns)) found.push_back(r);
    begin = end;
  }
  return found;
}

}  // namespace

Claims recover_axes(Output& output) {
  const Index n = compared(output);
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
  std::optional<Tiling> best;
  const auto consider = [&](Index height, Index width, const auto& corners) {
    for (const bool written : {true, false}) {
      Tiling found{output, height, width, written};
      corners(found);
      if (found.elements > (best ? best->elements : 0)) best.emplace(std::move(found));
    }
  };
  for (const bool of_groups : {false, true}) {
    if (of_groups && (output.ends.size() < 2 || output.group == "expert")) continue;  // the same
    for (const Index height : kSides) {
      const std::vector<Index> rows = tops(output, height, of_groups);
      for (const Index width : kSides) {
        consider(height, width, [&](Tiling& tiles) {
          for (const Index row : rows)
            for (Index c = 0; c + width <= output.columns; c += width)
              tiles.take(row * output.columns + c);
        });
      }
    }
  }
  // One tile that is all that differs may begin anywhere.
  const std::vector<Index> rows = Lines{output}.failing();
  const std::vector<Index> columns = Lines{output, true}.failing();
  consider(rows.back() - rows.front() + 1, columns.back() - columns.front() + 1,
           [&](Tiling& tile) { tile.take(rows.front() * output.columns + columns.front()); });
  if (!best || best->elements < kLeastOfTiles) return {};
  std::vector<std::uint8_t> in(output.marks.size());
  for (const Index corner : best->corners)
    for (Index k = 0; k < best->height * best->width; ++k) nth(in, best->at(corner, k)) = 1;
  const bool one = best->corners.size() == 1;
  const std::string how = best->height == best->width ? "transposed"
                          : best->written             ? "written column-major"
                                                      : "read column-major";
  return claim_where(
      output, {"order.tiles_transposed"}, [&](Index i) { return nth(in, i) != 0; },
      [&](const Place& place) {
        const Index tile = best->height * best->width;
        const Index all = std::ssize(place.rows) * std::ssize(place.columns) / tile;
        const Index some = std::ssize(best->corners);
        const std::string count = all > some ? filled("{} tiles", some) : "tiles";
        return filled("{} of {} x {} {} {}, in {}", one ? "a tile" : count, best->height,
                      best->width, one ? "is" : "are", how, place.words);
      });
}

}  // namespace mxo
