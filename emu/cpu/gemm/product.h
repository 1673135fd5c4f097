// What the fast products compute: C[m, n] = sum over c of A[m, c] * B[n, c], through strides.
#pragma once

#include <vector>

#include "emu/reference/scaled_line.h"
#include "ops/grouped_matmul.h"

namespace mxo::cpu {

/// One side of a product: `rows` lines to contract, each `depth` elements long.
struct Factor {
  Operand codes;
  Index start = 0;     ///< of element (0, 0)
  Index row_step = 0;  ///< from a line to the next
  Index step = 0;      ///< along the contracted axis
  Index rows = 0;
  Operand scales;  ///< not given: every scale is 1
  Index scales_start = 0;
  Index scales_row_step = 0;
  Index scales_step = 0;
  Index row_tile = 1;  ///< lines that share a scale
  Index block = 1;     ///< contracted neighbours that share a scale; the depth: one for all

  ScaledLine line(Index row) const {
    ScaledLine line;
    line.codes = codes;
    line.codes_start = start + row * row_step;
    line.codes_step = step;
    line.scales = scales;
    line.scales_start = scales_start + row / row_tile * scales_row_step;
    line.scales_step = scales_step;
    line.block = block;
    return line;
  }
};

/// One group's product.
struct Product {
  Factor a;
  Factor b;
  Index depth = 0;
  Scaling scaling = Scaling::mx;
  Result out;
  Index out_start = 0;
  Index out_row_step = 0;
  Index out_column_step = 0;
};

/// The groups that have outputs.
std::vector<Product> group_products(const GroupedMatmul& op);
std::vector<Product> group_products(const GroupedMatmulWgrad& op);

}  // namespace mxo::cpu
