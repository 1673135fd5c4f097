// Scales of a product: blocks guessed from shapes, the form that they have, what both sides share,
// and which extents stand for others.
#include <gtest/gtest.h>

#include "ops/catalogue/product_blocks.h"
#include "ops/contraction_view.h"
#include "ops/grouped_matmul.h"
#include "tests/support/refusal.h"

namespace mxo::contraction_forms_test {
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

/// The block, or what is said of scales that have none.
std::string guessed(Dtype type, std::vector<Index> scales, std::vector<Index> codes,
                    const Operand& ends = {}, const Parameters& set = {},
                    std::string_view name = "x") {
  const Tensor found(type, std::move(scales));
  std::string block;
  const std::string said = refusal([&] {
    block = name_of(
        block_of_scales("q", name, "block_x", set, {std::move(codes), ends}, found.operand()));
  });
  return said.empty() ? block : said;
}

TEST(ProductBlocks, OfF32AreOf128FirstOfAll) {
  const auto block = [](std::vector<Index> scales) {
    return guessed(Dtype::f32, std::move(scales), {300, 1024});
  };
  EXPECT_EQ(block({300, 8}), "1x128");
  EXPECT_EQ(block({3, 8}), "128x128");
  EXPECT_EQ(block({300, 1}), "1xK");
  EXPECT_EQ(block({300}), "1xK");
  EXPECT_EQ(block({300, 16}), "1x64");
  EXPECT_EQ(block({300, 32}), "1x32");
  EXPECT_EQ(block({300, 4}), "1x256");
  EXPECT_EQ(block({300, 2}), "1x512");
  EXPECT_EQ(guessed(Dtype::f32, {2, 300, 8}, {2, 300, 1024}), "1x128");
  EXPECT_EQ(guessed(Dtype::f32, {2, 300}, {2, 300, 1024}), "1xK");
  EXPECT_EQ(guessed(Dtype::f32, {300}, {300, 100}), "1xK") << "a vector is one scale a row";
  EXPECT_EQ(guessed(Dtype::f32, {300, 1}, {300, 100}), "1x128");
  EXPECT_TRUE(guessed(Dtype::f32, {7}, {300, 1024}, {}, {}, "")
                  .starts_with("q: scales: found f32 [7], needs [300, 8] for 1x128, "));
}

struct ContractedRows : testing::Test {
  /// Of codes [rows, 130] whose groups end there, told in i32 and in i64.
  static std::string block(Dtype type, std::vector<Index> scales, Index rows,
                           const std::vector<std::int32_t>& group_ends) {
    Tensor narrow(Dtype::i32, {static_cast<Index>(group_ends.size())});
    Tensor wide(Dtype::i64, narrow.shape());
    std::copy(group_ends.begin(), group_ends.end(), narrow.as<std::int32_t>());
    std::copy(group_ends.begin(), group_ends.end(), wide.as<std::int64_t>());
    const std::string text = guessed(type, scales, {rows, 130}, narrow.operand());
    EXPECT_EQ(text, guessed(type, scales, {rows, 130}, wide.operand()));
    return text;
  }
};

TEST_F(ContractedRows, OfE8m0AreCountedThroughoutTheTensor) {
  EXPECT_EQ(block(Dtype::e8m0, {2, 130}, 64, {32, 64}), "32x1");
  EXPECT_EQ(block(Dtype::e8m0, {3, 130}, 96, {32, 64}), "32x1") << "rows beyond have scales, too";
  EXPECT_EQ(block(Dtype::e8m0, {2, 5}, 64, {32, 64}), "32x32");
  EXPECT_EQ(block(Dtype::e8m0, {3, 130}, 64, {32, 64, 64}), "Rx1");
  EXPECT_EQ(block(Dtype::e8m0, {4, 130}, 256, {64, 128, 256}), "64x1");
  EXPECT_EQ(block(Dtype::e8m0, {2, 130}, 256, {64, 128, 256}), "128x1");
  EXPECT_EQ(block(Dtype::e8m0, {1}, 64, {32, 64}), "RxK");
}

TEST_F(ContractedRows, OfF32BeginAnewAtEveryGroup) {
  EXPECT_EQ(block(Dtype::f32, {3, 130}, 200, {5, 200}), "128x1") << "1 and 2";
  EXPECT_EQ(block(Dtype::f32, {3, 2}, 200, {5, 200}), "128x128");
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 200, {5, 200}), "Rx1");
  EXPECT_EQ(block(Dtype::f32, {5, 130}, 200, {5, 200}), "64x1") << "1 and 4";
  EXPECT_EQ(block(Dtype::f32, {8, 130}, 200, {5, 200}), "32x1") << "1 and 7";
  EXPECT_EQ(block(Dtype::f32, {1, 1}, 200, {5, 200}), "RxK");
}

TEST_F(ContractedRows, AreUnclearWhereTwoBlocksFitAndDiffer) {
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 64, {5, 64}), "128x1") << "each group is one block";
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 256, {128, 256}), "128x1");
  const std::string unclear =
      "q: x.scales: found f32 [2, 130], which fits blocks 128x1 and Rx1; needs block_x";
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 129, {129, 129}), unclear);
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 160, {0, 160}), unclear);
  EXPECT_EQ(block(Dtype::f32, {3, 130}, 260, {128, 260, 260}),
            "q: x.scales: found f32 [3, 130], which fits blocks 128x1 and Rx1; needs block_x");
}

}  // namespace
}  // namespace mxo::contraction_forms_test
