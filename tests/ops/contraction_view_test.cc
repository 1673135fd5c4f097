// Where the elements and scales of a product lie, told a second time from the views it was given.
#include "ops/contraction_view.h"

#include <gtest/gtest.h>

#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"

namespace mxo {
namespace {

/// A view that nobody reads, whose axes have steps that tell them apart.
template <typename View = Operand>
View apart(Dtype dtype, std::vector<Index> shape, Index unit = 1) {
  const std::vector<Index> steps = {1000003 * unit, 2003 * unit, 3 * unit};
  return view_of(static_cast<decltype(View::data)>(nullptr), dtype, shape,
                 std::span(steps).subspan(0, shape.size()));
}

ScaledTensor scaled(Dtype codes, Dtype scales, const std::vector<Index>& shape,
                    const BlockExtents& block, Index row_blocks = -1) {
  const auto blocks =
      row_blocks < 0 ? shape_of_scales(shape, block) : shape_of_scales(shape, block, row_blocks);
  return {apart(codes, shape), apart(scales, blocks, 7), block};
}

/// From the first scale to that of block `at` along an axis.
Index scale_step(const Operand& scales, int axis, Index at) {
  return axis >= scales.rank || scales.extent[axis] == 1 ? 0 : at * scales.stride[axis];
}

Index block_of(Index at, Index extent) { return extent == kWhole ? 0 : at / extent; }

struct Place {
  Index code;
  Index scale;
  friend bool operator==(const Place&, const Place&) = default;
};

void PrintTo(const Place& p, std::ostream* out) { *out << p.code << " * " << p.scale; }

Place in(const Factor& f, const GroupPlace& g, Index i, Index c) {
  return {f.code_at(g, i, c), f.scaled() ? f.scale_at(g, i, c) : 0};
}

/// Of a product that is one group's: whatever place it is asked with.
Place in_one(const Factor& f, Index i, Index c) {
  EXPECT_EQ(in(f, {3, 50, 7}, i, c), in(f, {}, i, c));
  return in(f, {}, i, c);
}

Place in_rows(const ScaledTensor& t, Index row, Index c) {
  return {row * t.codes.stride[0] + c * t.codes.stride[1],
          scale_step(t.scales, 0, block_of(row, t.block.rows)) +
              scale_step(t.scales, 1, block_of(c, t.block.columns))};
}

Place in_batch(const ScaledTensor& t, Index g, Index i, Index c) {
  return {g * t.codes.stride[0] + i * t.codes.stride[1] + c * t.codes.stride[2],
          scale_step(t.scales, 0, g) + scale_step(t.scales, 1, block_of(i, t.block.rows)) +
              scale_step(t.scales, 2, block_of(c, t.block.columns))};
}

/// Row `start` + c of all, the c-th of a group with `blocks` blocks before it.
Place in_columns(const ScaledTensor& t, Index g, Index start, Index blocks, Index i, Index c) {
  const Index block = t.block.rows == kWhole ? g : blocks + c / t.block.rows;
  return {(start + c) * t.codes.stride[0] + i * t.codes.stride[1],
          scale_step(t.scales, 0, block) + scale_step(t.scales, 1, block_of(i, t.block.columns))};
}

constexpr std::int32_t kEnds[] = {100, 100, 260};  // of 300 rows; the second group has none
Index start_of(Index g) { return g == 0 ? 0 : kEnds[g - 1]; }

Operand ends() { return view_of(static_cast<const void*>(kEnds), Dtype::i32, {3}); }

struct SlicedSides {
  ScaledTensor a;
  ScaledTensor b;
};

std::vector<SlicedSides> sides_of_matmul() {
  const std::vector<Index> x = {300, 256}, w = {3, 140, 256};
  const auto of = [&](Dtype scales, const BlockExtents& a, const BlockExtents& b) {
    return SlicedSides{scaled(Dtype::e4m3, scales, x, a), scaled(Dtype::e4m3, scales, w, b)};
  };
  std::vector<SlicedSides> all = {
      of(Dtype::e8m0, kMxColumns, kMxColumns),
      of(Dtype::f32, kRowBlock, kSquareBlock),
      of(Dtype::f32, kSquareBlock, kRowBlock),
      of(Dtype::f32, kWholeRow, kWholeRow),
      of(Dtype::f32, kWholeTensor, kWholeTensor),
      of(Dtype::f32, kWholeColumn, kColumnBlock),
      {unscaled(apart(Dtype::bf16, x)), unscaled(apart(Dtype::bf16, w))}};
  // One scale for every group; the trailing axes of one are left out.
  all.push_back(all[3]);
  all.back().b.scales = apart(Dtype::f32, {1, 140}, 7);
  all.back().a.scales.rank = 1;
  all.back().a.scales.extent[1] = 9;  // past the rank: no axis
  return all;
}

/// Said of a product and of its groups one by one.
template <typename Op>
void expect_memory_and_sum(const Op& op, const Operand& a, const Operand& b, const Result& out,
                           const Operand& c, const Accumulation& sum) {
  std::vector<ContractionView> views = products_of(op);
  views.push_back(contraction_of(op));
  for (const ContractionView& v : views) {
    EXPECT_EQ(v.a.codes.data, a.data);
    EXPECT_EQ(v.b.codes.data, b.data);
    EXPECT_EQ(v.a.codes.dtype, a.dtype);
    EXPECT_EQ(v.b.codes.dtype, b.dtype);
    EXPECT_EQ(v.out.data, out.data);
    EXPECT_EQ(v.c.data, c.data);
    EXPECT_EQ(v.sum, sum) << name_of(v.sum.fold) << " " << v.sum.block;
  }
}

TEST(Contractions, KeepTheirMemoryAndSettleTheirSum) {
  const std::byte memory[4]{};
  float out = 0;
  const auto at = [&](int which, ScaledTensor t) {
    t.codes.data = &memory[which];
    return t;
  };
  Result y = apart<Result>(Dtype::f32, {300, 140}), dw = apart<Result>(Dtype::f32, {3, 140, 256});
  Result d = apart<Result>(Dtype::f32, {3, 140, 140});
  Operand c = apart(Dtype::f32, {3, 140, 140});
  y.data = dw.data = d.data = &out;
  c.data = &memory[3];
  const std::vector<Index> rows = {300, 256}, batch = {3, 140, 256};
  const ScaledTensor x = at(0, scaled(Dtype::e4m3, Dtype::f32, rows, kRowBlock));
  const ScaledTensor w = at(1, scaled(Dtype::e5m2, Dtype::f32, batch, kSquareBlock));
  const ScaledTensor dy = at(2, scaled(Dtype::e5m2, Dtype::f32, {300, 140}, kColumnBlock, 3));
  const ScaledTensor tx = at(0, scaled(Dtype::e4m3, Dtype::f32, rows, kColumnBlock, 3));
  Accumulation settled = kFmaChain;
  settled.fold = Fold::x_then_w;
  settled.block = 128;
  expect_memory_and_sum(GroupedMatmul{x, w, ends(), kFmaChain, y}, x.codes, w.codes, y, {},
                        settled);
  expect_memory_and_sum(GroupedMatmulWgrad{dy, tx, ends(), kFmaChain, dw}, dy.codes, tx.codes, dw,
                        {}, settled);
  settled.fold = Fold::term;
  settled.block = 0;
  const Operand a = at(0, unscaled(apart(Dtype::bf16, batch))).codes;
  const Operand b = at(1, unscaled(apart(Dtype::f16, batch))).codes;
  expect_memory_and_sum(FusedDot{a, b, c, {}, {}, kFmaChain, d}, a, b, d, c, settled);
}

TEST(Contractions, FindTheElementsOfRowsAndBatches) {
  for (const auto& [x, w] : sides_of_matmul()) {
    SCOPED_TRACE(name_of(x.block) + " by " + name_of(w.block));
    const GroupedMatmul op{x, w, ends(), kExact, apart<Result>(Dtype::f32, {300, 140}, 5)};
    const ContractionView all = contraction_of(op);
    const std::vector<ContractionView> alone = products_of(op);
    EXPECT_EQ(all.groups, 3);
    EXPECT_EQ(all.depth, 256);
    EXPECT_EQ(all.b.rows, 140);
    EXPECT_FALSE(all.contracts_rows());
    EXPECT_EQ(all.a.rows, 300);
    ASSERT_EQ(alone.size(), 3u);
    for (Index g = 0; g < 3; ++g) {
      const ContractionView& one = alone[static_cast<std::size_t>(g)];
      const GroupPlace place{g, start_of(g), 0};
      EXPECT_EQ(one.groups, 1);
      EXPECT_EQ(one.depth, 256);
      EXPECT_EQ(one.a.rows, kEnds[g] - place.start);
      EXPECT_EQ(one.b.rows, 140);
      for (const Index i : {0, 1, 27, 28, 130, 139}) {
        for (const Index c : {0, 1, 31, 32, 127, 128, 255}) {
          const Place of_x = in_rows(x, place.start + i, c);
          const Place of_w = in_batch(w, g, i, c);
          EXPECT_EQ(in(all.a, place, i, c), of_x) << g << ", " << i << ", " << c;
          EXPECT_EQ(in(all.b, place, i, c), of_w) << g << ", " << i << ", " << c;
          EXPECT_EQ(in_one(one.a, i, c), of_x) << g << ", " << i << ", " << c;
          EXPECT_EQ(in_one(one.b, i, c), of_w) << g << ", " << i << ", " << c;
        }
        const Index out = (place.start + i) * op.y.stride[0] + 9 * op.y.stride[1];
        EXPECT_EQ(all.out_at(place, i, 9), out);
        EXPECT_EQ(one.out_at({3, 50, 7}, i, 9), out);
      }
    }
  }
}

TEST(Contractions, FindTheElementsOfColumns) {
  // 100 rows, none and 160: blocks of 32 are 4 and 5, of 128 one and two.
  const std::vector<Index> dy = {300, 140}, x = {300, 256};
  const auto of = [&](Dtype scales, const BlockExtents& a, Index blocks_a, const BlockExtents& b,
                      Index blocks_b) {
    return SlicedSides{scaled(Dtype::e4m3, scales, dy, a, blocks_a),
                       scaled(Dtype::e4m3, scales, x, b, blocks_b)};
  };
  const SlicedSides all_sides[] = {
      of(Dtype::e8m0, kMxRows, 9, kMxRows, 9),
      of(Dtype::f32, kColumnBlock, 3, kSquareBlock, 3),
      of(Dtype::f32, kMxRows, 9, kColumnBlock, 3),
      of(Dtype::f32, kColumnBlock, 3, kMxRows, 9),
      of(Dtype::f32, kWholeColumn, 3, kWholeColumn, 3),
      of(Dtype::f32, kWholeTensor, 3, kColumnBlock, 3),
      {unscaled(apart(Dtype::bf16, dy)), unscaled(apart(Dtype::bf16, x))}};
  for (const auto& [a, b] : all_sides) {
    SCOPED_TRACE(name_of(a.block) + " by " + name_of(b.block));
    const GroupedMatmulWgrad op{a, b, ends(), kExact, apart<Result>(Dtype::f32, {3, 140, 256}, 5)};
    const ContractionView all = contraction_of(op);
    const std::vector<ContractionView> alone = products_of(op);
    EXPECT_EQ(all.groups, 3);
    EXPECT_EQ(all.depth, 300);
    EXPECT_TRUE(all.contracts_rows());
    EXPECT_EQ(all.a.rows, 140);
    EXPECT_EQ(all.b.rows, 256);
    ASSERT_EQ(alone.size(), 3u);
    Index before_a = 0, before_b = 0;
    for (Index g = 0; g < 3; ++g) {
      const ContractionView& one = alone[static_cast<std::size_t>(g)];
      const Index start = start_of(g), rows = kEnds[g] - start;
      EXPECT_EQ(one.groups, 1);
      EXPECT_EQ(one.depth, rows);
      EXPECT_EQ(one.a.rows, 140);
      EXPECT_EQ(one.b.rows, 256);
      EXPECT_FALSE(one.contracts_rows());
      for (const Index i : {0, 1, 127, 128, 139}) {
        for (const Index c : {0, 1, 31, 32, 99, 128, 159}) {
          if (c >= rows) continue;
          const Place of_a = in_columns(a, g, start, before_a, i, c);
          const Place of_b = in_columns(b, g, start, before_b, i, c);
          EXPECT_EQ(in(all.a, {g, start, before_a}, i, c), of_a) << g << ", " << i << ", " << c;
          EXPECT_EQ(in(all.b, {g, start, before_b}, i, c), of_b) << g << ", " << i << ", " << c;
          EXPECT_EQ(in_one(one.a, i, c), of_a) << g << ", " << i << ", " << c;
          EXPECT_EQ(in_one(one.b, i, c), of_b) << g << ", " << i << ", " << c;
        }
        const Index out = g * op.dw.stride[0] + i * op.dw.stride[1] + 9 * op.dw.stride[2];
        EXPECT_EQ(all.out_at({g, start, 0}, i, 9), out);
        EXPECT_EQ(one.out_at({3, 50, 7}, i, 9), out);
      }
      if (a.block.rows != kWhole) before_a += ceil_div(rows, a.block.rows);
      if (b.block.rows != kWhole) before_b += ceil_div(rows, b.block.rows);
    }
  }
}

TEST(Contractions, FindWhatAnInstructionReads) {
  const FusedDot op{
      apart(Dtype::e4m3, {2, 3, 64}),          apart(Dtype::e5m2, {2, 5, 64}, 11),
      apart(Dtype::f32, {2, 3, 5}, 13),        apart(Dtype::e8m0, {2, 3, 2}, 17),
      apart(Dtype::e8m0, {2, 5, 2}, 19),       sum_named("b200_tcgen05", OperandKind::mx),
      apart<Result>(Dtype::f32, {2, 3, 5}, 23)};
  const ScaledTensor a{op.a, op.a_scales, kMxColumns}, b{op.b, op.b_scales, kMxColumns};
  const ContractionView all = contraction_of(op);
  const std::vector<ContractionView> alone = products_of(op);
  EXPECT_EQ(all.groups, 2);
  EXPECT_EQ(all.depth, 64);
  EXPECT_EQ(all.form, ScaleForm::mx);
  EXPECT_EQ(all.sum.fold, Fold::term);
  ASSERT_EQ(alone.size(), 2u);
  for (Index g = 0; g < 2; ++g) {
    const ContractionView& one = alone[static_cast<std::size_t>(g)];
    EXPECT_EQ(one.groups, 1);
    EXPECT_EQ(one.depth, 64);
    EXPECT_EQ(one.a.rows, 3);
    EXPECT_EQ(one.b.rows, 5);
    for (const Index i : {0, 1, 2}) {
      EXPECT_EQ(in(all.a, {g, 0, 0}, i, 33), in_batch(a, g, i, 33));
      EXPECT_EQ(in_one(one.a, i, 33), in_batch(a, g, i, 33));
      EXPECT_EQ(in_one(one.b, i, 33), in_batch(b, g, i, 33));
      const Index c = g * op.c.stride[0] + i * op.c.stride[1] + 4 * op.c.stride[2];
      const Index d = g * op.d.stride[0] + i * op.d.stride[1] + 4 * op.d.stride[2];
      EXPECT_EQ(all.c_at({g, 0, 0}, i, 4), c);
      EXPECT_EQ(one.c_at({3, 50, 7}, i, 4), c);
      EXPECT_EQ(all.out_at({g, 0, 0}, i, 4), d);
      EXPECT_EQ(one.out_at({3, 50, 7}, i, 4), d);
    }
  }
}

}  // namespace
}  // namespace mxo
