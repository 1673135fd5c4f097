// Which rows and columns share scales, for each quantiser.
#include "emu/cpu/swiglu_quantize_tiles.h"

#include <algorithm>

#include "emu/reference/block_rows.h"

namespace mxo::cpu {
namespace {

constexpr Index kTileElements = Index{32} << 10;  // with the results, a fraction of a second cache
constexpr Index kLooseRows = 8;                   // of a band whose rows have scales of their own
constexpr Index kLooseColumns = 64;

Result rectangle(Result matrix, Index r, Index rows, Index k, Index columns) {
  auto* data = static_cast<std::byte*>(matrix.data);
  const Index offset = r * matrix.stride[0] + k * matrix.stride[1];
  matrix.data = data + offset * static_cast<Index>(size_of(matrix.dtype));
  matrix.extent[0] = rows;
  matrix.extent[1] = columns;
  return matrix;
}

}  // namespace

QuantizedTiles::QuantizedTiles(const ScaledResult& to, const Operand& group_ends, Index rows,
                               Index columns)
    : to_(to), unit_rows_(to.block.rows), unit_columns_(mxo::block_columns(to.block, columns)) {
  const bool loose = unit_rows_ == 1;
  const Index height = loose ? kLooseRows : unit_rows_;
  Index start = 0;
  Index scales = 0;
  const Index groups = group_ends.given() ? group_ends.extent[0] : 1;
  for (Index g = 0; g < groups; ++g) {
    const Index end = group_ends.given() ? group_ends.as<const std::int32_t, 1>()(g) : rows;
    for (Index r = start; r < end; r += height) {
      bands_.push_back({r, std::min(r + height, end), scales});
      scales += ceil_div(bands_.back().past - r, unit_rows_);
    }
    start = end;
  }
  past_ = start;
  most_rows_ = std::max<Index>(std::min(height, rows), 1);
  const Index unit = unit_columns_ > 1 ? unit_columns_ : kLooseColumns;
  panel_ = std::max(kTileElements / most_rows_ / unit, Index{1}) * unit;
}

ScaledResult QuantizedTiles::part(const RowBand& band, Index k, Index n) const {
  ScaledResult part = to_;
  const Index rows = band.past - band.first;
  part.codes = rectangle(to_.codes, band.first, rows, k, n);
  part.scales = rectangle(to_.scales, band.scales, ceil_div(rows, unit_rows_), k / unit_columns_,
                          ceil_div(n, unit_columns_));
  return part;
}

}  // namespace mxo::cpu
