// Which rows and columns share scales, for each quantiser.
#include "emu/cpu/quantized_tiles.h"

#include <algorithm>

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

QuantizedTiles::QuantizedTiles(const QuantizedResult& to, Index rows) : to_(to) {
  if (to.mx()) {
    (to.axis == BlockAxis::rows ? unit_rows_ : unit_columns_) = to.block;
  } else {
    unit_rows_ = block_rows(to.shape);
    unit_columns_ = mxo::block_columns(to.shape);
  }
  const bool loose = unit_rows_ == 1;
  const Index height = loose ? kLooseRows : unit_rows_;
  Index start = 0;
  Index scales = 0;
  const Index groups = to.group_ends.given() ? to.group_ends.extent[0] : 1;
  for (Index g = 0; g < groups; ++g) {
    const Index end = to.group_ends.given() ? to.group_ends.as<const std::int32_t, 1>()(g) : rows;
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

QuantizedResult QuantizedTiles::part(const RowBand& band, Index k, Index n) const {
  QuantizedResult part = to_;
  const Index rows = band.past - band.first;
  part.codes = rectangle(to_.codes, band.first, rows, k, n);
  part.scales = rectangle(to_.scales, band.scales, ceil_div(rows, unit_rows_), k / unit_columns_,
                          ceil_div(n, unit_columns_));
  part.group_ends = {};
  return part;
}

}  // namespace mxo::cpu
