// Lines of one side of a product, and those of the other that they meet.
#pragma once

#include <cmath>
#include <vector>

#include "golden/explain/output.h"
#include "golden/explain/product.h"
#include "golden/explain/recover/effective.h"

namespace mxo {

struct Sides {
  using Line = std::vector<double>;

  const Product& p;
  Side side;
  const ProductSide& factor() const { return side == Side::a ? p.a : p.b; }
  Line own(Index g, Index i) const { return side == Side::a ? p.line_a(g, i) : p.line_b(g, i); }
  Line other(Index g, Index j) const { return side == Side::a ? p.line_b(g, j) : p.line_a(g, j); }
  Index output(const Output& y, Index g, Index i, Index j) const {
    return side == Side::a ? p.output_row(g, i) * y.columns + j
                           : p.output_row(g, j) * y.columns + i;
  }
  Index first(Index g) const { return side == Side::a ? p.first_line(g) : 0; }
  Index last(Index g) const { return side == Side::a ? p.last_line(g) : p.n; }
  Index first_other(Index g) const { return side == Side::a ? 0 : p.first_line(g); }
  Index last_other(Index g) const { return side == Side::a ? p.n : p.last_line(g); }
  /// Where code d of a line lies.
  Index code(Index g, Index i, Index d) const {
    if (p.wgrad) return (p.begin(g) + d) * (side == Side::a ? p.a_lines : p.n) + i;
    return (side == Side::a ? i : g * p.n + i) * p.k + d;
  }
  Index scale(Index g, Index i, Index d) const {
    return side == Side::a ? p.scale_a(g, i, d) : p.scale_b(g, i, d);
  }
};

/// Lines of a side in which elements fail, by group.
struct FailingLines {
  Index group;
  std::vector<Index> lines;
};

/// Lines of which more than one output in sixteen differs.
std::vector<FailingLines> failing_lines(const Sides& s, const Output& y);

}  // namespace mxo
