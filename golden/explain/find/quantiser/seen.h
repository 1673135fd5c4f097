// The scales of one factor as a product shows them.
#pragma once

#include <optional>

#include "golden/explain/find/product/measured.h"

namespace mxo {

/// The scales of one factor, as they were measured on some lines.
struct Observation {
  const Product& product;
  Side side;
  std::vector<Effective> lines;

  const ProductSide& factor() const { return side == Side::a ? product.a : product.b; }
  /// Where the scale of a block of a group's line lies in the tensor of scales, or -1.
  Index at(Index group, Index line, Index block) const;
  Index at(const Effective& e, Index block) const { return at(e.group, e.line, block); }
  /// The scale of a block as measured, on the grid of its type; NaN where it is unknown.
  double value(const Effective& e, Index block) const;
  /// Scales that a block may have been taken with.
  struct Range {
    double from;
    double to;
    bool holds(double given) const { return given >= from && given <= to; }
  };
  /// None where nothing is known of the block.
  std::optional<Range> range(const Effective& e, Index block) const;
};

}  // namespace mxo
