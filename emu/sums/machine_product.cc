// Operators as products of a machine.
#include "emu/sums/machine_product.h"

#include "emu/sums/machine_dot.h"

namespace mxo {
namespace {

/// The lines of batch entry `g` of codes [G, lines, K]; scales, if any, [G, lines/.., blocks].
MachineLines batch_entry(const Operand& codes, const Operand& scales, Index g) {
  MachineLines lines;
  lines.codes = codes;
  lines.start = g * codes.stride[0];
  lines.line_step = codes.stride[1];
  lines.k_step = codes.stride[2];
  lines.scales = scales;
  lines.scale_start = g * scales.stride[0];
  lines.scale_line_step = scales.stride[1];
  lines.scale_block_step = scales.stride[2];
  return lines;
}

/// Columns of codes [R, lines] from row `first` on: K runs down the rows.
MachineLines columns(const Operand& codes, const Operand& scales, Index first, Index scale_row) {
  MachineLines lines;
  lines.codes = codes;
  lines.start = first * codes.stride[0];
  lines.line_step = codes.stride[1];
  lines.k_step = codes.stride[0];
  lines.scales = scales;
  lines.scale_start = scale_row * scales.stride[0];
  lines.scale_line_step = scales.stride[1];
  lines.scale_block_step = scales.stride[0];
  return lines;
}

}  // namespace

std::vector<MachineProduct> products_of(const GroupedMatmul& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  std::vector<MachineProduct> products;
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    MachineProduct p;
    p.how = op.sum;
    p.scaling = op.scaling;
    p.a.codes = op.x;
    p.a.start = start * op.x.stride[0];
    p.a.line_step = op.x.stride[0];
    p.a.k_step = op.x.stride[1];
    p.a.scales = op.x_scales;
    p.a.scale_start = start * op.x_scales.stride[0];
    p.a.scale_line_step = op.x_scales.stride[0];
    p.a.scale_block_step = op.x_scales.stride[1];
    p.b = batch_entry(op.w, op.w_scales, g);
    if (op.scaling == Scaling::blockwise) p.b.lines_per_scale = kScaleTile;
    p.m = ends(g) - start;
    p.n = op.w.extent[1];
    p.k = op.x.extent[1];
    p.out = op.y;
    p.out_start = start * op.y.stride[0];
    p.out_row = op.y.stride[0];
    p.out_column = op.y.stride[1];
    products.push_back(p);
    start = ends(g);
  }
  return products;
}

std::vector<MachineProduct> products_of(const GroupedMatmulWgrad& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  std::vector<MachineProduct> products;
  Index start = 0;
  Index tiles = 0;  // scale tiles of the groups before
  for (Index g = 0; g < ends.extent[0]; ++g) {
    const Index scale_row = op.scaling == Scaling::mx        ? start / kMxBlock
                            : op.scaling == Scaling::rowwise ? g
                                                             : tiles;
    MachineProduct p;
    p.how = op.sum;
    p.scaling = op.scaling;
    p.a = columns(op.dy, op.dy_scales, start, scale_row);
    p.b = columns(op.x, op.x_scales, start, scale_row);
    p.m = op.dy.extent[1];
    p.n = op.x.extent[1];
    p.k = ends(g) - start;
    p.out = op.dw;
    p.out_start = g * op.dw.stride[0];
    p.out_row = op.dw.stride[1];
    p.out_column = op.dw.stride[2];
    products.push_back(p);
    tiles += ceil_div(p.k, kScaleTile);
    start = ends(g);
  }
  return products;
}

std::vector<MachineProduct> products_of(const FusedDot& op) {
  std::vector<MachineProduct> products;
  for (Index i = 0; i < op.a.extent[0]; ++i) {
    MachineProduct p;
    p.how = op.sum;
    p.scaling = op.a_scales.given() ? Scaling::mx : Scaling::none;
    p.a = batch_entry(op.a, op.a_scales, i);
    p.b = batch_entry(op.b, op.b_scales, i);
    p.m = op.a.extent[1];
    p.n = op.b.extent[1];
    p.k = op.a.extent[2];
    p.c = op.c;
    p.c_start = i * op.c.stride[0];
    p.c_row = op.c.stride[1];
    p.c_column = op.c.stride[2];
    p.out = op.d;
    p.out_start = i * op.d.stride[0];
    p.out_row = op.d.stride[1];
    p.out_column = op.d.stride[2];
    products.push_back(p);
  }
  return products;
}

DotOperand machine_operand(const MachineProduct& product, const MachineLines& lines, Index i,
                           Index k) {
  const Index at = lines.start + i * lines.line_step + k * lines.k_step;
  if (product.scaling != Scaling::mx) {
    return dot_operand_at(lines.codes.data, lines.codes.dtype, at);
  }
  const E8M0 scale = lines.e8m0_scale(i, k / kMxBlock);
  if (product.how.scales == ScalePlace::exponent) {
    return scaled_by(dot_operand_at(lines.codes.data, lines.codes.dtype, at), scale);
  }
  return visit_minifloat8(lines.codes.dtype, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    return dot_operand(dequantize_bf16(static_cast<const Code*>(lines.codes.data)[at], scale));
  });
}

float machine_epilogue(const MachineProduct& product, Index i, Index j, float v) {
  if (product.scaling != Scaling::rowwise || product.k == 0) return v;
  const float scaled = (v * product.a.f32_scale(i, 0)) * product.b.f32_scale(j, 0);
  return machine_result(product.how, scaled);
}

}  // namespace mxo
