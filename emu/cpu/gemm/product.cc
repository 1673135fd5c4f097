// The strides of each group's product, forward and weight gradient.
#include "emu/cpu/gemm/product.h"

#include <algorithm>

#include "formats/mx_block.h"

namespace mxo::cpu {
namespace {

Index scale_block(Scaling scaling, Index depth) {
  if (scaling == Scaling::mx) return kMxBlock;
  if (scaling == Scaling::blockwise) return kScaleTile;
  return std::max<Index>(depth, 1);
}

/// Rows [start, end) of a group, contracted across: columns of `codes` become lines.
Factor columns(const Operand& codes, const Operand& scales, Index start, Index scale_row,
               Index block) {
  Factor f;
  f.codes = codes;
  f.start = start * codes.stride[0];
  f.row_step = codes.stride[1];
  f.step = codes.stride[0];
  f.rows = codes.extent[1];
  f.scales = scales;
  f.scales_start = scale_row * scales.stride[0];
  f.scales_row_step = scales.stride[1];
  f.scales_step = scales.stride[0];
  f.block = block;
  return f;
}

}  // namespace

std::vector<Product> group_products(const GroupedMatmul& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const Index depth = op.x.extent[1];
  std::vector<Product> products;
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    Product p;
    p.depth = depth;
    p.scaling = op.scaling;
    p.a.codes = op.x;
    p.a.start = start * op.x.stride[0];
    p.a.row_step = op.x.stride[0];
    p.a.step = op.x.stride[1];
    p.a.rows = ends(g) - start;
    p.a.scales = op.x_scales;
    p.a.scales_start = start * op.x_scales.stride[0];
    p.a.scales_row_step = op.x_scales.stride[0];
    p.a.scales_step = op.x_scales.stride[1];
    p.a.block = scale_block(op.scaling, depth);
    p.b.codes = op.w;
    p.b.start = g * op.w.stride[0];
    p.b.row_step = op.w.stride[1];
    p.b.step = op.w.stride[2];
    p.b.rows = op.w.extent[1];
    p.b.scales = op.w_scales;
    p.b.scales_start = g * op.w_scales.stride[0];
    p.b.scales_row_step = op.w_scales.stride[1];
    p.b.scales_step = op.w_scales.stride[2];
    p.b.row_tile = op.scaling == Scaling::blockwise ? kScaleTile : 1;
    p.b.block = p.a.block;
    p.out = op.y;
    p.out_start = start * op.y.stride[0];
    p.out_row_step = op.y.stride[0];
    p.out_column_step = op.y.stride[1];
    if (p.a.rows > 0 && p.b.rows > 0) products.push_back(p);
    start = ends(g);
  }
  return products;
}

std::vector<Product> group_products(const GroupedMatmulWgrad& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  std::vector<Product> products;
  Index start = 0;
  Index tiles = 0;  // scale tiles of the groups before
  for (Index g = 0; g < ends.extent[0]; ++g) {
    const Index depth = ends(g) - start;
    Index scale_row = 0;
    if (op.scaling == Scaling::mx) scale_row = start / kMxBlock;
    if (op.scaling == Scaling::rowwise) scale_row = g;
    if (op.scaling == Scaling::blockwise) scale_row = tiles;
    Product p;
    p.depth = depth;
    p.scaling = op.scaling;
    p.a = columns(op.dy, op.dy_scales, start, scale_row, scale_block(op.scaling, depth));
    p.b = columns(op.x, op.x_scales, start, scale_row, scale_block(op.scaling, depth));
    p.out = op.dw;
    p.out_start = g * op.dw.stride[0];
    p.out_row_step = op.dw.stride[1];
    p.out_column_step = op.dw.stride[2];
    if (p.a.rows > 0 && p.b.rows > 0) products.push_back(p);
    tiles += ceil_div(depth, kScaleTile);
    start = ends(g);
  }
  return products;
}

}  // namespace mxo::cpu
