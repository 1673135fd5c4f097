// Scales found by their shapes, and by what the operator says where shapes leave it open.
#include "golden/judge/scale_map.h"

#include <algorithm>

#include "formats/scale_layout.h"
#include "golden/judge/group_rows.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {
namespace {

Index elements_of(const std::vector<Index>& shape) {
  Index n = 1;
  for (const Index extent : shape) n *= extent;
  return n;
}

/// The block that cuts `codes` elements into `scales`; 0 if none does.
Index block_of(Index codes, Index scales, Index known) {
  for (const Index block : {known, Index{1}, Index{32}, Index{128}, codes}) {
    if (block > 0 && ceil_div(codes, block) == scales) return block;
  }
  return 0;
}

/// a / b, in 32 bits where they fit: many processors divide 64 several times slower.
Index quotient(Index a, Index b) {
  if (((a | b) >> 32) != 0) return a / b;
  return static_cast<Index>(static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b));
}
Index remainder(Index a, Index b) { return a - quotient(a, b) * b; }

}  // namespace

ScaleHints scale_hints(std::string_view op, const NamedTensors& inputs, const Parameters& set) {
  ScaleHints hints;
  if (op == "quantize" || op.starts_with("swiglu_quantize")) {
    const ScaleChoice choice = scale_choice(op, set);
    hints.block = choice.block;
    hints.divides = choice.scale == Dtype::f32 && choice.rule.f32.stores == StoredScale::multiplier;
    if (set.flag("transpose", false)) std::swap(hints.block->rows, hints.block->columns);
  }
  const std::string_view layout = set.text("scale_layout", "row_major");
  hints.packed = layout != "row_major" && layout != "blocked";
  hints.turned = op == "scaling_aware_transpose";
  const auto ends = inputs.find("group_ends");
  if (ends != inputs.end()) hints.group_ends = group_ends_of(ends->second);
  if (hints.turned) hints.block = kColumnBlock;
  return hints;
}

std::optional<ScaleMap> ScaleMap::of(const std::vector<Index>& codes,
                                     const std::vector<Index>& scales, Dtype scale_type,
                                     const ScaleHints& hints) {
  if (hints.packed || codes.empty() || elements_of(codes) == 0) return std::nullopt;
  ScaleMap map;
  map.turned_ = hints.turned;
  map.divides_ = hints.divides;
  map.columns_ = codes.back();
  map.rows_ = codes.size() < 2 ? 1 : codes[codes.size() - 2];
  std::vector<Index> seen = codes;
  if (hints.turned) {
    if (codes.size() != 2) return std::nullopt;
    std::swap(map.rows_, map.columns_);
    std::swap(seen[0], seen[1]);
  }
  const bool by_rows = hints.block ? hints.block->rows != 1 : scale_type == Dtype::f32;
  const bool grouped = !hints.group_ends.empty() && codes.size() == 2 && by_rows;
  if (grouped && map.fit_groups(scales, hints)) return map;
  if (map.fit_blocks(seen, scales, hints) || map.fit_rows(seen, scales)) return map;
  if (scale_type == Dtype::e8m0 && map.fit_tiles(seen, scales, hints)) return map;
  return std::nullopt;
}

bool ScaleMap::fit_blocks(const std::vector<Index>& codes, const std::vector<Index>& scales,
                          const ScaleHints& hints) {
  if (scales.size() != codes.size()) return false;
  const BlockExtents known = hints.block.value_or(BlockExtents{0, 0});
  const std::size_t last = codes.size() - 1;
  column_block_ = block_of(codes[last], scales[last], known.columns);
  scale_columns_ = scales[last];
  if (last > 0) {
    row_block_ = block_of(codes[last - 1], scales[last - 1], known.rows);
    scale_rows_ = scales[last - 1];
  }
  kind_ = Kind::blocks;
  return row_block_ > 0 && column_block_ > 0 &&
         std::equal(codes.begin(),
                    codes.end() - std::min<std::ptrdiff_t>(2, codes.end() - codes.begin()),
                    scales.begin());
}

bool ScaleMap::fit_rows(const std::vector<Index>& codes, const std::vector<Index>& scales) {
  if (!std::equal(codes.begin(), codes.end() - 1, scales.begin(), scales.end())) return false;
  kind_ = Kind::rows;
  return true;
}

bool ScaleMap::fit_tiles(const std::vector<Index>& codes, const std::vector<Index>& scales,
                         const ScaleHints& hints) {
  column_block_ = hints.block ? hints.block->columns : kMxBlock;
  scale_columns_ = ceil_div(columns_, column_block_);
  scale_rows_ = blocked_bytes(rows_, scale_columns_);
  kind_ = Kind::tiles;
  return elements_of(scales) == elements_of(codes) / (rows_ * columns_) * scale_rows_;
}

bool ScaleMap::fit_groups(const std::vector<Index>& scales, const ScaleHints& hints) {
  if (scales.size() != 2 || hints.group_ends.back() > rows_) return false;
  const BlockExtents block = hints.block.value_or(kColumnBlock);
  column_block_ = block.columns == kWhole ? columns_ : block.columns;
  scale_columns_ = ceil_div(columns_, column_block_);
  if (scales[1] != scale_columns_) return false;
  const Index height = block.rows == kWhole ? kScaledBlock : block.rows;
  const auto groups = static_cast<Index>(hints.group_ends.size());
  Index blocks = 0;
  Index begin = 0;
  for (const Index end : hints.group_ends) {
    blocks += ceil_div(end - begin, height);
    begin = end;
  }
  const bool by_blocks = hints.block ? block.rows != kWhole : scales[0] != groups;
  if (scales[0] != (by_blocks ? blocks : groups)) return false;
  kind_ = Kind::groups;
  scale_row_.assign(static_cast<std::size_t>(rows_), -1);
  Index first = 0;
  begin = 0;
  for (const Index end : hints.group_ends) {
    for (Index r = begin; r < end; ++r) {
      scale_row_[static_cast<std::size_t>(r)] = first + (by_blocks ? (r - begin) / height : 0);
    }
    first += by_blocks ? ceil_div(end - begin, height) : 1;
    begin = end;
  }
  return true;
}

Index ScaleMap::run(Index i) const {
  if (turned_) return 1;
  const Index column = remainder(i, columns_);
  if (kind_ == Kind::rows) return columns_ - column;
  return std::min(columns_ - column, column_block_ - remainder(column, column_block_));
}

Index ScaleMap::operator()(Index i) const {
  const Index matrix = quotient(i, rows_ * columns_);
  const Index at = i - matrix * rows_ * columns_;
  const Index line = quotient(at, turned_ ? rows_ : columns_);
  const Index along = at - line * (turned_ ? rows_ : columns_);
  return scale(matrix, turned_ ? along : line, quotient(turned_ ? line : along, column_block_));
}

ScaleMap::Place ScaleMap::place(Index row, Index column) const {
  const Index matrix = row < rows_ ? 0 : quotient(row, rows_);
  const Index block = quotient(column, column_block_);
  const Index end =
      kind_ == Kind::rows ? columns_ : std::min(columns_, (block + 1) * column_block_);
  return {scale(matrix, row - matrix * rows_, block), end - column};
}

Index ScaleMap::scale(Index matrix, Index row, Index block) const {
  switch (kind_) {
    case Kind::rows: return matrix * rows_ + row;
    case Kind::groups: {
      const Index scale_row = scale_row_[static_cast<std::size_t>(row)];
      return scale_row < 0 ? -1 : scale_row * scale_columns_ + block;
    }
    case Kind::tiles:
      return matrix * scale_rows_ +
             blocked_offset(row, block, ceil_div(scale_columns_, kTileColumns));
    case Kind::blocks: break;
  }
  const Index scale_row = row_block_ == 1 ? row : quotient(row, row_block_);
  return (matrix * scale_rows_ + scale_row) * scale_columns_ + block;
}

}  // namespace mxo
