// Which scale multiplies which code of a quantised tensor.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "ops/catalogue.h"
#include "ops/scaled_tensor.h"

namespace mxo {

/// What is known of a quantised tensor beside its shapes.
struct ScaleHints {
  std::optional<BlockExtents> block;  ///< of elements that share a scale; else 1, 32, 128 or all
  bool turned = false;                ///< codes are the transpose of what the scales were made for
  std::vector<Index> group_ends;      ///< empty: none
  bool divides = false;               ///< codes are divided by scales, as multipliers are stored
  bool packed = false;                ///< scales lie as another library's: no map knows them
};

/// Hints from the operator that made the tensor and its call.
ScaleHints scale_hints(std::string_view op, const NamedTensors& inputs, const Parameters& set);

/// Codes [.., R, K] and their scales, row-major both: blocks along one or both of the last axes
/// (ragged ends too), one scale per row [..], one per column of each group [E, K], one per 128 rows
/// of each group [G, K], or the 128x4 tiles of formats/scale_layout.h.
class ScaleMap {
 public:
  /// Nothing where scales of this shape and type do not fit the codes.
  static std::optional<ScaleMap> of(const std::vector<Index>& codes,
                                    const std::vector<Index>& scales, Dtype scale_type,
                                    const ScaleHints& hints);

  /// The scale of code `i`; -1 for a row that belongs to no group.
  Index operator()(Index i) const;
  /// How many codes from `i` on, row-major and in its row, have its scale; at least 1.
  Index run(Index i) const;
  /// Codes of a row (all matrices counted) from `column` on: their scale, and how many surely have
  /// it.  Not of codes that were turned.
  struct Place {
    Index scale;  ///< -1: none
    Index run;
  };
  Place place(Index row, Index column) const;
  bool turned() const { return turned_; }
  bool divides() const { return divides_; }

 private:
  enum class Kind : std::uint8_t { blocks, rows, tiles, groups };

  bool fit_blocks(const std::vector<Index>& codes, const std::vector<Index>& scales,
                  const ScaleHints& hints);
  bool fit_rows(const std::vector<Index>& codes, const std::vector<Index>& scales);
  bool fit_tiles(const std::vector<Index>& codes, const std::vector<Index>& scales,
                 const ScaleHints& hints);
  bool fit_groups(const std::vector<Index>& scales, const ScaleHints& hints);
  Index scale(Index matrix, Index row, Index block) const;

  Kind kind_ = Kind::blocks;
  bool turned_ = false;
  bool divides_ = false;
  Index rows_ = 1, columns_ = 1;  // of one matrix of codes, as the scales see them
  Index row_block_ = 1, column_block_ = 1;
  Index scale_rows_ = 1, scale_columns_ = 1;  // of one matrix
  std::vector<Index> scale_row_;              // groups: of each row
};

}  // namespace mxo
