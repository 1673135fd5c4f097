// A quantiser's work cut into rectangles, each with scales of its own.
#pragma once

#include <vector>

#include "ops/scaled_tensor.h"

namespace mxo::cpu {

/// Rows that can be quantised independently; their scales begin at row `scales`.
struct RowBand {
  Index first;
  Index past;
  Index scales;
};

/// Bands of rows and panels of columns, whole blocks each, of a size that stays in L2.
class QuantizedTiles {
 public:
  /// For x [rows, columns]; `to` has blocks of a number of rows.
  QuantizedTiles(const ScaledResult& to, const Operand& group_ends, Index rows, Index columns);

  const std::vector<RowBand>& bands() const { return bands_; }
  /// Past the last row that has codes.
  Index past() const { return past_; }
  Index most_rows() const { return most_rows_; }
  /// Columns of a panel: a multiple of the block.
  Index panel() const { return panel_; }
  Index block_columns() const { return unit_columns_; }
  /// The part of the result for columns [k, k + n) of a band.
  ScaledResult part(const RowBand& band, Index k, Index n) const;

 private:
  const ScaledResult& to_;
  std::vector<RowBand> bands_;
  Index unit_rows_ = 1;
  Index unit_columns_ = 1;
  Index most_rows_ = 0;
  Index panel_ = 0;
  Index past_ = 0;
};

}  // namespace mxo::cpu
