// Operators as products, and their groups one by one.
#include "ops/contraction_view.h"

#include <numeric>

#include "formats/mx_block.h"
#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"

namespace mxo {
namespace {

/// Extents of blocks as the view has them.
Index extent_of(Index extent) { return extent == kWhole ? Factor::kWholeK : extent; }

/// From a block to the next along `axis`; none where one scale holds for all.
Index scale_step(const Operand& scales, int axis) {
  const bool one = axis >= scales.rank || scales.extent[axis] == 1;
  return one ? 0 : scales.stride[axis];
}

/// K-vectors that share a scale; where all do, each may as well have its own.
Index tile_of(Index extent, Index row_step) { return row_step == 0 ? 1 : extent_of(extent); }

/// K-vectors along the last axis of a matrix [rows, K].
Factor rows_of(const ScaledTensor& t) {
  Factor f;
  f.codes = t.codes;
  f.row_step = t.codes.stride[0];
  f.step = t.codes.stride[1];
  f.rows = t.codes.extent[0];
  f.scales = t.scales;
  f.scales_row_step = scale_step(t.scales, 0);
  f.scales_step = scale_step(t.scales, 1);
  f.row_tile = tile_of(t.block.rows, f.scales_row_step);
  f.block = extent_of(t.block.columns);
  f.rows_are_rows = true;
  return f;
}

/// The same in each matrix of a batch [G, rows, K].
Factor batch_of(const ScaledTensor& t) {
  Factor f;
  f.codes = t.codes;
  f.group_step = t.codes.stride[0];
  f.row_step = t.codes.stride[1];
  f.step = t.codes.stride[2];
  f.rows = t.codes.extent[1];
  f.scales = t.scales;
  f.scales_group_step = scale_step(t.scales, 0);
  f.scales_row_step = scale_step(t.scales, 1);
  f.scales_step = scale_step(t.scales, 2);
  f.row_tile = tile_of(t.block.rows, f.scales_row_step);
  f.block = extent_of(t.block.columns);
  return f;
}

/// Columns of a matrix [K of all groups, rows]; blocks restart at each group.
Factor columns_of(const ScaledTensor& t) {
  Factor f;
  f.codes = t.codes;
  f.row_step = t.codes.stride[1];
  f.step = t.codes.stride[0];
  f.rows = t.codes.extent[1];
  f.scales = t.scales;
  f.scales_row_step = scale_step(t.scales, 1);
  (t.block.rows == kWhole ? f.scales_group_step : f.scales_step) = scale_step(t.scales, 0);
  f.row_tile = tile_of(t.block.columns, f.scales_row_step);
  f.block = extent_of(t.block.rows);
  f.k_is_rows = true;
  return f;
}

void resolve(std::string_view op, ContractionView& v) {
  const bool numbers = (v.a.scaled() && v.a.scales.dtype == Dtype::f32) ||
                       (v.b.scaled() && v.b.scales.dtype == Dtype::f32);
  v.sum = resolved_sum(op, v.sum, v.a.scaled() || v.b.scaled(), numbers, shared_block(v.a, v.b));
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
  if (all([](const Factor& f) { return !f.blocked() && f.row_tile == 1; })) {
    const bool after = v.sum.fold == Fold::after || (is_after(v.sum.fold) && is_machine(v.sum));
    return exact || (after && plain) ? ScaleForm::rowwise : ScaleForm::other;
  }
  const bool tiles = all([](const Factor& f) { return f.block == kScaleTile; }) &&
                     v.a.row_tile == 1 && (v.b.row_tile == 1 || v.b.row_tile == kScaleTile);
  const bool folds = exact || (v.sum.fold == Fold::x_then_w && v.sum.block == kScaleTile);
  return tiles && folds ? ScaleForm::blockwise : ScaleForm::other;
}

Index shared_block(const Factor& a, const Factor& b) {
  if (!a.blocked() || !b.blocked()) return a.blocked() ? a.block : b.blocked() ? b.block : 0;
  return std::gcd(a.block, b.block);
}

bool scales_fit(const Operand& scales, std::span<const Index> needed) {
  const int rank = static_cast<int>(needed.size());
  if (scales.rank > rank) return false;
  for (int i = 0; i < rank; ++i) {
    const Index extent = i < scales.rank ? scales.extent[i] : 1;
    const Index want = needed[static_cast<std::size_t>(i)];
    const bool for_all = i == 0 && rank == 3 && extent == 1;
    if (extent != want && !for_all) return false;
  }
  return true;
}

ContractionView contraction_of(const GroupedMatmul& op) {
  ContractionView v;
  v.sum = op.sum;
  v.a = rows_of(op.x);
  v.b = batch_of(op.w);
  v.groups = op.w.codes.extent[0];
  v.depth = op.x.codes.extent[1];
  v.out = op.y;
  v.out_row_step = op.y.stride[0];
  v.out_column_step = op.y.stride[1];
  resolve("grouped_matmul", v);
  return v;
}

ContractionView contraction_of(const GroupedMatmulWgrad& op) {
  ContractionView v;
  v.sum = op.sum;
  v.a = columns_of(op.dy);
  v.b = columns_of(op.x);
  v.groups = op.group_ends.extent[0];
  v.depth = op.dy.codes.extent[0];
  v.out = op.dw;
  v.out_group_step = op.dw.stride[0];
  v.out_row_step = op.dw.stride[1];
  v.out_column_step = op.dw.stride[2];
  resolve("grouped_matmul_wgrad", v);
  return v;
}

ContractionView contraction_of(const FusedDot& op) {
  ContractionView v;
  v.sum = op.sum;
  v.a = batch_of({op.a, op.a_scales, kMxColumns});
  v.b = batch_of({op.b, op.b_scales, kMxColumns});
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
  resolve("fused_dot", v);
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
