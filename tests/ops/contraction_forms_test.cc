// Which form a product's scales have, what both sides share, and which extents stand for others.
#include <gtest/gtest.h>

#include "ops/contraction_view.h"
#include "ops/grouped_matmul.h"

namespace mxo {
namespace {

Operand empty(Dtype dtype, std::span<const Index> shape) {
  return view_of(static_cast<const void*>(nullptr), dtype, shape);
}

/// One side's codes, type of scales and block; bf16 scales: none.
struct Side {
  Dtype codes = Dtype::e4m3;
  Dtype scales = Dtype::bf16;
  BlockExtents block = kMxColumns;
};

ScaledTensor tensor_of(const Side& side, const std::vector<Index>& shape) {
  if (side.scales == Dtype::bf16) return unscaled(empty(side.codes, shape));
  return {empty(side.codes, shape), empty(side.scales, shape_of_scales(shape, side.block)),
          side.block};
}

ContractionView view_of_sides(const Side& x, const Side& w, Accumulation sum = kExact) {
  return contraction_of(
      GroupedMatmul{tensor_of(x, {256, 512}), tensor_of(w, {2, 384, 512}), {}, sum, {}});
}

ScaleForm form(const Side& x, const Side& w, Accumulation sum = kExact) {
  return view_of_sides(x, w, sum).form;
}

Accumulation machine(std::string_view name, Fold fold, int block,
                     OperandKind kind = OperandKind::fp8) {
  Accumulation sum = sum_named(name, kind);
  sum.fold = fold;
  sum.block = block;
  return sum;
}

TEST(ScaleForms, OfWholeRowsAreAfterTheSum) {
  const Side row{Dtype::e4m3, Dtype::f32, kWholeRow}, all{Dtype::e4m3, Dtype::f32, kWholeTensor};
  const Side rows{Dtype::e4m3, Dtype::f32, {128, kWhole}};
  EXPECT_EQ(form(row, row), ScaleForm::rowwise);
  EXPECT_EQ(form(row, all), ScaleForm::rowwise);
  EXPECT_EQ(form(row, rows), ScaleForm::other);
  EXPECT_EQ(form(rows, row), ScaleForm::other);
  const char* const fast = "h200_wgmma_fast";
  EXPECT_EQ(form(row, row, sum_named(fast, OperandKind::fp8)), ScaleForm::rowwise);
  EXPECT_EQ(form(row, row, machine(fast, Fold::after, 128)), ScaleForm::other);
  EXPECT_EQ(form(row, row, machine(fast, Fold::x_then_w, 128)), ScaleForm::other);
  EXPECT_EQ(form(row, row, machine("fma_chain", Fold::term, 0)), ScaleForm::other);
}

TEST(ScaleForms, AskNoAxisPastTheRank) {
  ScaledTensor all = tensor_of({Dtype::e4m3, Dtype::f32, kWholeTensor}, {256, 512});
  all.scales.rank = 1;
  all.scales.extent[1] = all.scales.stride[1] = 9;
  const ScaledTensor w = tensor_of({Dtype::e4m3, Dtype::f32, kWholeRow}, {2, 384, 512});
  EXPECT_EQ(contraction_of(GroupedMatmul{all, w, {}, kExact, {}}).a.scales_step, 0);
}

TEST(ScaleForms, OfTilesRestartEvery128) {
  const Side row{Dtype::e4m3, Dtype::f32, kRowBlock}, square{Dtype::e4m3, Dtype::f32, kSquareBlock};
  const Side mx{Dtype::e4m3, Dtype::f32, kMxColumns}, whole{Dtype::e4m3, Dtype::f32, kWholeRow};
  const Side high{Dtype::e4m3, Dtype::f32, {64, 128}};
  EXPECT_EQ(form(row, square), ScaleForm::blockwise);
  EXPECT_EQ(form(row, row), ScaleForm::blockwise);
  EXPECT_EQ(form(square, row), ScaleForm::other);
  EXPECT_EQ(form(square, square), ScaleForm::other);
  EXPECT_EQ(form(row, high), ScaleForm::other);
  EXPECT_EQ(form(row, mx), ScaleForm::other);
  EXPECT_EQ(form(mx, square), ScaleForm::other);
  EXPECT_EQ(form(row, whole), ScaleForm::other);
  EXPECT_EQ(form(whole, row), ScaleForm::other);
  const char* const fast = "h200_wgmma_fast";
  EXPECT_EQ(form(row, square, machine(fast, Fold::by_scales, 0)), ScaleForm::blockwise);
  EXPECT_EQ(form(row, square, machine(fast, Fold::x_then_w, 64)), ScaleForm::other);
  EXPECT_EQ(form(row, square, machine(fast, Fold::joint, 128)), ScaleForm::other);
}

TEST(SharedBlocks, AreWhatBothHaveOrOne) {
  const auto blocked = [](Index block) {
    Factor f;
    f.scales.rank = 2;
    f.block = block;
    return f;
  };
  const Factor whole = blocked(Factor::kWholeK);
  Factor plain = blocked(32);
  plain.scales.rank = 0;
  EXPECT_EQ(shared_block(blocked(96), blocked(128)), 32);
  EXPECT_EQ(shared_block(blocked(96), whole), 96);
  EXPECT_EQ(shared_block(whole, blocked(96)), 96);
  EXPECT_EQ(shared_block(whole, whole), 0);
  EXPECT_EQ(shared_block(plain, blocked(64)), 64);
  EXPECT_EQ(shared_block(plain, plain), 0);
}

TEST(ScalesFit, MayLeaveOutAxesOfOne) {
  const auto fit = [](std::vector<Index> scales, std::vector<Index> needed) {
    return scales_fit(empty(Dtype::f32, scales), needed);
  };
  EXPECT_TRUE(fit({3, 4}, {3, 4}));
  EXPECT_FALSE(fit({3, 5}, {3, 4}));
  EXPECT_FALSE(fit({2, 4}, {3, 4}));
  EXPECT_FALSE(fit({1, 4}, {3, 4})) << "one scale stands for groups only";
  EXPECT_TRUE(fit({3}, {3, 1}));
  EXPECT_FALSE(fit({3}, {3, 2}));
  EXPECT_FALSE(fit({3, 1, 1}, {3, 1})) << "an axis that is no block's";
  EXPECT_TRUE(fit({1, 5, 4}, {3, 5, 4}));
  EXPECT_TRUE(fit({3, 5}, {3, 5, 1}));
  EXPECT_TRUE(fit({1, 5}, {3, 5, 1}));
  EXPECT_TRUE(fit({1}, {3, 1, 1}));
  EXPECT_FALSE(fit({3, 1, 4}, {3, 5, 4}));
  EXPECT_FALSE(fit({3, 5, 1}, {3, 5, 4}));
  EXPECT_FALSE(fit({2, 5, 4}, {3, 5, 4}));
}

}  // namespace
}  // namespace mxo
