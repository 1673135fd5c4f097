// Which blocks the scales of an operand have, from their shapes.
#include "ops/catalogue/product_blocks.h"

#include <string>

#include "ops/catalogue/scale_parameters.h"
#include "ops/contraction_view.h"

namespace mxo {
namespace {

constexpr BlockExtents kMxCandidates[] = {kMxColumns, {32, 32}, kWholeRow, kWholeTensor,
                                          {1, 16},    {1, 64},  kRowBlock};
constexpr BlockExtents kMxRowCandidates[] = {kMxRows, {32, 32},     kWholeColumn,
                                             {64, 1}, kColumnBlock, kWholeTensor};
constexpr BlockExtents kF32Candidates[] = {kRowBlock, kSquareBlock, kWholeRow, kWholeTensor,
                                           {1, 64},   {1, 32},      {1, 256},  {1, 512}};
constexpr BlockExtents kF32RowCandidates[] = {kColumnBlock, kWholeColumn, kSquareBlock,
                                              kWholeTensor, {64, 1},      {32, 1}};

std::span<const BlockExtents> candidates(Dtype type, bool rows_contracted) {
  if (type == Dtype::e8m0) {
    return rows_contracted ? std::span<const BlockExtents>(kMxRowCandidates) : kMxCandidates;
  }
  return rows_contracted ? std::span<const BlockExtents>(kF32RowCandidates) : kF32Candidates;
}

std::vector<Index> needed(const BlockShapes& shapes, const BlockExtents& block, Dtype type) {
  if (!shapes.ends.given()) return shape_of_scales(shapes.codes, block);
  const Index rows = shapes.codes.front();
  // Ends of groups are multiples of a block of e8m0 scales: those of rows beyond them are there.
  const bool aligned = type == Dtype::e8m0 && block.rows != kWhole;
  const Index tiles = aligned ? rows / block.rows : row_blocks_of(shapes.ends, block.rows, rows);
  return shape_of_scales(shapes.codes, block, tiles);
}

/// True if no group has more rows than `height`: a block of them is then a whole column.
bool groups_within(const BlockShapes& shapes, Index height) {
  const Operand& ends = shapes.ends;
  Index start = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index end = ends.dtype == Dtype::i64 ? ends.as<const std::int64_t, 1>()(g)
                                               : ends.as<const std::int32_t, 1>()(g);
    if (end - start > height) return false;
    start = end;
  }
  return true;
}

std::string text_of(const std::vector<Index>& shape) {
  std::string text = "[";
  for (const Index extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

}  // namespace

BlockExtents block_of_scales(std::string_view op, std::string_view name, std::string_view key,
                             const Parameters& set, const BlockShapes& shapes,
                             const Operand& found) {
  if (set.has(key)) return block_named(op, set.text(key, ""), key);
  const std::string scales = name.empty() ? "scales" : std::string(name) + ".scales";
  const Dtype type = found.dtype;
  const bool rows = shapes.ends.given();
  if (!rows && found.rank + 1 == static_cast<int>(shapes.codes.size()) &&
      scales_fit(found, needed(shapes, kWholeRow, type))) {
    return kWholeRow;
  }
  std::string shapes_text;
  const BlockExtents* fits = nullptr;
  for (const BlockExtents& block : candidates(type, rows)) {
    const std::vector<Index> shape = needed(shapes, block, type);
    const bool one = block == kWholeTensor && found.elements() == 1;
    shapes_text += (shapes_text.empty() ? "" : ", ") + text_of(shape) + " for " + name_of(block);
    if (!one && !scales_fit(found, shape)) continue;
    if (fits == nullptr) {
      fits = &block;
      continue;
    }
    // Blocks of a height and whole columns may have as many: then groups decide, or the caller.
    const bool unclear = rows && *fits == kColumnBlock && block == kWholeColumn &&
                         !groups_within(shapes, fits->rows);
    if (unclear) {
      throw Error(Fault::argument, std::string(op) + ": " + scales + ": found " + describe(found) +
                                       ", which fits blocks " + name_of(*fits) + " and " +
                                       name_of(block) + "; needs " + std::string(key));
    }
  }
  if (fits != nullptr) return *fits;
  throw Error(Fault::shape, std::string(op) + ": " + scales + ": found " + describe(found) +
                                ", needs " + shapes_text + ", or " + std::string(key));
}

}  // namespace mxo
