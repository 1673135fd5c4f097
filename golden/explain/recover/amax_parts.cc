// Running largest magnitudes of blocks, and the numbers of lines that give a scale.
#include "golden/explain/recover/amax_parts.h"

#include <algorithm>
#include <cmath>

#include "golden/explain/product.h"

namespace mxo {
namespace {

/// Rows or columns of a block, walked from the front or from behind.
struct Walk {
  bool columns;
  bool from_behind;
};

/// Where in its block an element lies, and how many lines the block has that way.
struct At {
  Index line;
  Index lines;
};

class BlockLines {
 public:
  explicit BlockLines(const Blocks& b) : b_(b), first_(b.block_row.size()), rows_(first_.size()) {
    for (std::size_t r = 0; r < first_.size(); ++r) {
      const bool same = r > 0 && b.block_row[r] == b.block_row[r - 1];
      first_[r] = same ? first_[r - 1] : static_cast<Index>(r);
    }
    for (std::size_t r = first_.size(); r-- > 0;) {
      const bool same = r + 1 < first_.size() && b.block_row[r] == b.block_row[r + 1];
      rows_[r] = same ? rows_[r + 1] : static_cast<Index>(r) + 1 - first_[r];
    }
  }
  At at(Index i, const Walk& walk) const {
    const Index c = i % b_.columns;
    const auto r = static_cast<std::size_t>(i / b_.columns % b_.rows);
    At found{};
    if (walk.columns) {
      const Index begin = c / b_.block_columns * b_.block_columns;
      found = {c - begin, std::min(b_.block_columns, b_.columns - begin)};
    } else {
      found = {static_cast<Index>(r) - first_[r], rows_[r]};
    }
    if (walk.from_behind) found.line = found.lines - 1 - found.line;
    return found;
  }
  Index most(bool columns) const {
    if (columns) return b_.block_columns;
    return rows_.empty() ? 0 : *std::max_element(rows_.begin(), rows_.end());
  }

 private:
  const Blocks& b_;
  std::vector<Index> first_;  ///< row of the block that a row lies in
  std::vector<Index> rows_;   ///< of that block
};

/// The numbers of lines that give each scale: from `least` to `most`.
struct Range {
  Index least = 1;
  Index most = 0;
};

Range lines_that_give(const Output& scales, const Blocks& b, const OwnCodes& own,
                      const BlockLines& lines, const Walk& walk) {
  const Index length = lines.most(walk.columns);
  const auto n = static_cast<std::size_t>(scales.expected->elements());
  constexpr Index kMostCells = Index{1} << 24;
  if (length < 2 || static_cast<Index>(n) * length > kMostCells) return {};
  // The largest magnitude of every line of every block.
  std::vector<float> most(n * static_cast<std::size_t>(length), -1.0f);
  for (Index i = 0; i < b.x->elements(); ++i) {
    const Index s = b.scale_of(i);
    if (s < 0) continue;
    float& m = most[static_cast<std::size_t>(s * length + lines.at(i, walk).line)];
    const float v = std::fabs(b.value(i));
    if (!std::isfinite(v)) return {};
    m = std::max(m, v);
  }
  Range range{1, length};
  for (std::size_t s = 0; s < n && range.least <= range.most; ++s) {
    const float* line = most.data() + s * static_cast<std::size_t>(length);
    if (line[0] < 0.0f) continue;  // of no block
    const auto came = static_cast<float>(scale_value(*scales.actual, static_cast<Index>(s)));
    Range own_range{1, 0};
    float running = -1.0f;
    bool gives = false;
    for (Index k = 0; k < length && line[k] >= 0.0f; ++k) {
      if (line[k] > running) {
        running = line[k];
        const bool now = own.stored(running) == came;
        if (now && !gives) own_range.least = k + 1;
        if (!now && gives) break;
        gives = now;
      }
      if (gives) own_range.most = k + 1;
      // A short block is whole from its end on.
      if (gives && (k + 1 == length || line[k + 1] < 0.0f)) own_range.most = length;
    }
    range.least = std::max(range.least, own_range.least);
    range.most = std::min(range.most, own_range.most);
  }
  return range;
}

}  // namespace

Index roundest(Index least, Index most, Index all) {
  for (Index part = 1; part <= all; part *= 2) {
    if (all % part != 0) break;
    const Index step = all / part;
    const Index n = most / step * step;
    if (n >= least) return n;
  }
  return most;
}

std::optional<AmaxPart> amax_part_of(const Output& scales, const Blocks& b, const OwnCodes& own) {
  if (b.tiled) return std::nullopt;
  const BlockLines lines(b);
  for (const Walk walk :
       {Walk{true, false}, Walk{true, true}, Walk{false, false}, Walk{false, true}}) {
    const Index length = lines.most(walk.columns);
    const Range range = lines_that_give(scales, b, own, lines, walk);
    if (range.least > range.most || range.most >= length) continue;
    const Index n = roundest(range.least, range.most, length);
    AmaxPart part{std::string("the ") + (walk.from_behind ? "last " : "first ") +
                      std::to_string(n) + " of the " + std::to_string(length) +
                      (walk.columns ? " columns" : " rows") + " of its block",
                  std::vector<float>(static_cast<std::size_t>(scales.expected->elements()))};
    for (Index i = 0; i < b.x->elements(); ++i) {
      const Index s = b.scale_of(i);
      if (s < 0 || lines.at(i, walk).line >= n) continue;
      float& m = part.amax[static_cast<std::size_t>(s)];
      m = std::max(m, std::fabs(b.value(i)));
    }
    return part;
  }
  return std::nullopt;
}

}  // namespace mxo
