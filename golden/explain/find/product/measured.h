// The scales that a product was taken with, measured from its output by least squares.
#pragma once

#include <optional>
#include <vector>

#include "golden/explain/find/product/sides.h"

namespace mxo {

/// What each block of depth of one line was multiplied by, as a multiple of what it should have
/// been: the least-squares solution of y[i, j] = sum over blocks of c[block] P[block, i, j] with
/// every partial product P known, weighted by how finely y is stored.
struct Effective {
  Index group = 0;
  Index line = 0;             ///< row of x, column of w, dy or x
  std::vector<double> ratio;  ///< c of each block
  std::vector<double> sigma;  ///< its standard error
  double misfit = 1.0;        ///< what is left of y over y, root mean squares
  Index blocks() const { return static_cast<Index>(ratio.size()); }
  /// The block is known well enough to tell a power of two from the next.
  bool known(Index block) const;
  /// The output is one of these operands, whatever the scales.
  bool fits() const { return misfit < 0.02; }
};

/// Lines of `side` in which elements are left, spread over the output, at most `most`.
std::vector<Effective> measure(const Product& product, const Output& output, Side side, Index most);

/// The scales of one factor, as they were measured on some lines.
struct Observation {
  const Product& product;
  Side side;
  std::vector<Effective> lines;

  const ProductSide& factor() const { return side == Side::a ? product.a : product.b; }
  /// Where the scale of a block of a group's line lies in the tensor of scales, or -1.
  Index at(Index group, Index line, Index block) const {
    return Sides{product, side}.scale(group, line, block * product.block);
  }
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
