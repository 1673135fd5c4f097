// The scales that a product was taken with, measured from its output by least squares.
#pragma once

#include <vector>

#include "golden/explain/find/least_squares.h"
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
  /// The block is known well enough to tell a power of two from the next.
  bool known(Index block) const;
  /// The output is one of these operands, whatever the scales.
  bool fits() const { return misfit < 0.02; }
};

/// Lines of `side` in which elements are left, spread over the output, at most `most`.
std::vector<Effective> measure(const Product& product, const Output& output, Side side, Index most);

}  // namespace mxo
