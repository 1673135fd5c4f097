// Operators as products, and their groups one by one.
#include "ops/contraction_view.h"

#include <algorithm>

#include "formats/mx_block.h"
#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"

namespace mxo {
namespace {

Index block_of(Scaling scaling) {
  if (scaling == Scaling::mx) return kMxBlock;
  return scaling == Scaling::blockwise ? kScaleTile : Factor::kWholeK;
}

/// K-vectors along the last axis of codes [rows, K]; scales, if any, [rows, blocks].
Factor rows_of(const Operand& codes, const Operand& scales, Scaling scaling) {
  Factor f;
  f.codes = codes;
  f.row_step = codes.stride[0];
  f.step = codes.stride[1];
  f.rows = codes.extent[0];
  f.scales = scales;
  f.scales_row_step = scales.stride[0];
  f.scales_step = scales.stride[1];
  f.block = block_of(scaling);
  f.rows_are_rows = true;
  return f;
}

/// The same in every group: codes [G, rows, K], scales [G, rows / row_tile, blocks].
Factor batch_of(const Operand& codes, const Operand& scales, Scaling scaling) {
  Factor f;
  f.codes = codes;
  f.group_step = codes.stride[0];
  f.row_step = codes.stride[1];
  f.step = codes.stride[2];
  f.rows = codes.extent[1];
  f.scales = scales;
  f.scales_group_step = scales.stride[0];
  f.scales_row_step = scales.stride[1];
  f.scales_step = scales.stride[2];
  f.block = block_of(scaling);
  return f;
}

/// Columns of codes [K of all groups, rows].
Factor columns_of(const Operand& codes, const Operand& scales, Scaling scaling) {
  Factor f;
  f.codes = codes;
  f.row_step = codes.stride[1];
  f.step = codes.stride[0];
  f.rows = codes.extent[1];
  f.scales = scales;
  f.scales_row_step = scales.stride[1];
  (scaling == Scaling::rowwise ? f.scales_group_step : f.scales_step) = scales.stride[0];
  f.block = block_of(scaling);
  f.k_is_rows = true;
  return f;
}

ScaleForm form_of(const ContractionView& v) {
  const auto all = [&](auto holds) { return holds(v.a) && holds(v.b); };
  const bool plain = v.sum.block == 0;
  const bool exact = v.sum.family == SumFamily::exact;
  if (all([](const Factor& f) { return !f.scaled() && f.codes.dtype == Dtype::bf16; })) {
    return plain ? ScaleForm::none : ScaleForm::other;
  }
  if (!all([](const Factor& f) { return f.scaled() && is_minifloat8(f.codes.dtype); })) {
    return ScaleForm::other;
  }
  if (all([](const Factor& f) { return f.scales.dtype == Dtype::e8m0; })) {
    const bool fits =
        all([](const Factor& f) { return f.block == kMxBlock && f.row_tile == 1; }) && plain;
    return fits && v.sum.fold == Fold::term ? ScaleForm::mx : ScaleForm::other;
  }
  if (!all([](const Factor& f) { return f.scales.dtype == Dtype::f32; })) return ScaleForm::other;
  if (all([](const Factor& f) { return !f.blocked(); })) {
    return exact || (v.sum.fold == Fold::after && plain) ? ScaleForm::rowwise : ScaleForm::other;
  }
  const bool tiles = all([](const Factor& f) { return f.block == kScaleTile; }) &&
                     v.a.row_tile == 1 && (v.b.row_tile == 1 || v.b.row_tile == kScaleTile);
  const bool folds = exact || (v.sum.fold == Fold::x_then_w && v.sum.block == kScaleTile);
  return tiles && folds ? ScaleForm::blockwise : ScaleForm::other;
}

void settle(std::string_view op, ContractionView& v) {
  const bool numbers = (v.a.scaled() && v.a.scales.dtype == Dtype::f32) ||
                       (v.b.scaled() && v.b.scales.dtype == Dtype::f32);
  const Index shared = shared_block(v.a, v.b);
  v.sum = settled_sum(op, v.sum, v.a.scaled() || v.b.scaled(), numbers,
                      shared == Factor::kWholeK ? 0 : shared);
  v.form = form_of(v);
}

/// The factor of one group alone.
Factor of_group(Factor f, const GroupPlace& g, Index rows) {
  f.start = f.code_at(g, 0, 0);
  if (f.scaled()) {
    // A tile of rows may begin in the group before: what is left of it stays in first_row.
    const Index row = f.first_row + (f.rows_are_rows ? g.start : 0);
    f.scales_start = f.scale_at(g, 0, 0);
    f.first_row = row % f.row_tile;
  }
  f.group_step = 0;
  f.scales_group_step = 0;
  f.rows = f.rows_are_rows ? rows : f.rows;
  f.rows_are_rows = false;
  f.k_is_rows = false;
  return f;
}

ContractionView of_group(const ContractionView& v, const GroupPlace& g, Index blocks_b,
                         Index rows) {
  ContractionView one = v;
  one.a = of_group(v.a, g, rows);
  one.b = of_group(v.b, {g.group, g.start, blocks_b}, rows);
  if (v.contracts_rows()) one.depth = rows;
  one.groups = 1;
  one.out_start = v.out_at(g, 0, 0);
  one.out_group_step = 0;
  one.c_start = v.c_at(g, 0, 0);
  one.c_group_step = 0;
  return one;
}

std::vector<ContractionView> groups_of(const ContractionView& v, const Operand& group_ends) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  std::vector<ContractionView> products;
  GroupPlace place;  // of a; the blocks of b may be others
  Index blocks_b = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    place.group = g;
    const Index rows = ends(g) - place.start;
    products.push_back(of_group(v, place, blocks_b, rows));
    if (v.contracts_rows() && v.a.blocked()) place.blocks += ceil_div(rows, v.a.block);
    if (v.contracts_rows() && v.b.blocked()) blocks_b += ceil_div(rows, v.b.block);
    place.start = ends(g);
  }
  return products;
}

}  // namespace

Index shared_block(const Factor& a, const Factor& b) {
  return std::min(a.blocked() ? a.block : Factor::kWholeK, b.blocked() ? b.block : Factor::kWholeK);
}

ContractionView contraction_of(const GroupedMatmul& op) {
  ContractionView v;
  v.sum = op.sum;
  v.a = rows_of(op.x, op.x_scales, op.scaling);
  v.b = batch_of(op.w, op.w_scales, op.scaling);
  if (op.scaling == Scaling::blockwise) v.b.row_tile = kScaleTile;
  v.groups = op.w.extent[0];
  v.depth = op.x.extent[1];
  v.out = op.y;
  v.out_row_step = op.y.stride[0];
  v.out_column_step = op.y.stride[1];
  settle("grouped_matmul", v);
  return v;
}

ContractionView contraction_of(const GroupedMatmulWgrad& op) {
  ContractionView v;
  v.sum = op.sum;
  v.a = columns_of(op.dy, op.dy_scales, op.scaling);
  v.b = columns_of(op.x, op.x_scales, op.scaling);
  v.groups = op.group_ends.extent[0];
  v.depth = op.dy.extent[0];
  v.out = op.dw;
  v.out_group_step = op.dw.stride[0];
  v.out_row_step = op.dw.stride[1];
  v.out_column_step = op.dw.stride[2];
  settle("grouped_matmul_wgrad", v);
  return v;
}

ContractionView contraction_of(const FusedDot& op) {
  ContractionView v;
  v.sum = op.sum;
  const Scaling scaling = op.a_scales.given() ? Scaling::mx : Scaling::none;
  v.a = batch_of(op.a, op.a_scales, scaling);
  v.b = batch_of(op.b, op.b_scales, scaling);
  v.groups = op.a.extent[0];
  v.depth = op.a.extent[2];
  v.c = op.c;
  v.c_group_step = op.c.stride[0];
  v.c_row_step = op.c.stride[1];
  v.c_column_step = op.c.stride[2];
  v.out = op.d;
  v.out_group_step = op.d.stride[0];
  v.out_row_step = op.d.stride[1];
  v.out_column_step = op.d.stride[2];
  settle("fused_dot", v);
  return v;
}

std::vector<ContractionView> products_of(const GroupedMatmul& op) {
  return groups_of(contraction_of(op), op.group_ends);
}

std::vector<ContractionView> products_of(const GroupedMatmulWgrad& op) {
  return groups_of(contraction_of(op), op.group_ends);
}

std::vector<ContractionView> products_of(const FusedDot& op) {
  const ContractionView v = contraction_of(op);
  std::vector<ContractionView> products;
  for (Index g = 0; g < v.groups; ++g) products.push_back(of_group(v, {g, 0, 0}, 0, v.a.rows));
  return products;
}

}  // namespace mxo
