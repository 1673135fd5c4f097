// Where the loops of the reference find elements, blocks of rows, and the rows of a sum.
#include <cmath>

#include <gtest/gtest.h>

#include "emu/reference/block_rows.h"
#include "emu/reference/elements.h"
#include "emu/reference/elementwise.h"
#include "formats/tensor.h"

namespace mxo {
namespace {

Tensor ends_of(std::initializer_list<std::int32_t> values) {
  Tensor t(Dtype::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  return t;
}

TEST(ElementWalks, GoThroughViewsRowByRow) {
  Operand view;
  view.rank = 3;
  const Index extents[] = {2, 3, 4};
  const Index strides[] = {100, 1, 10};
  std::copy_n(extents, 3, view.extent);
  std::copy_n(strides, 3, view.stride);
  Index i = 0;
  for (Index a = 0; a < 2; ++a) {
    for (Index b = 0; b < 3; ++b) {
      for (Index c = 0; c < 4; ++c) EXPECT_EQ(offset_of(view, i++), 100 * a + b + 10 * c);
    }
  }
  EXPECT_EQ(offset_of(Operand{}, 0), 0);
}

TEST(ElementWalks, GiveMatricesABatchOfOne) {
  Tensor matrix(Dtype::f32, {3, 4}), cube(Dtype::f32, {2, 3, 4});
  const auto one = batched<float>(matrix.result());
  EXPECT_EQ(one.extent[0], 1);
  EXPECT_EQ(one.extent[1], 3);
  EXPECT_EQ(one.extent[2], 4);
  EXPECT_EQ(&one(0, 2, 3), matrix.as<float>() + 11);
  EXPECT_EQ(one.stride[0], 0);
  const auto whole = batched<float>(cube.result());
  EXPECT_EQ(whole.extent[0], 2);
  EXPECT_EQ(&whole(1, 2, 3), cube.as<float>() + 23);
}

std::string blocks(const Operand& ends, Index rows, Index height) {
  std::string text;
  for (const BlockRows& b : block_rows(ends, rows, height)) {
    text += std::to_string(b.first) + "-" + std::to_string(b.end) + ":" + std::to_string(b.scales) +
            " ";
  }
  return text;
}

TEST(ElementWalks, BeginBlocksAnewAtEveryGroup) {
  EXPECT_EQ(blocks({}, 70, 32), "0-32:0 32-64:1 64-70:2 ");
  EXPECT_EQ(blocks({}, 64, 32), "0-32:0 32-64:1 ");
  EXPECT_EQ(blocks({}, 70, kWhole), "0-70:0 ");
  EXPECT_EQ(blocks({}, 0, 32), "");
  const Tensor ends = ends_of({5, 5, 45});
  EXPECT_EQ(blocks(ends.operand(), 70, 32), "0-5:0 5-37:1 37-45:2 ");
  EXPECT_EQ(blocks(ends.operand(), 70, kWhole), "0-5:0 5-5:1 5-45:2 ");
}

TEST(ElementWalks, CountBlocksAlongARow) {
  EXPECT_EQ(block_columns({1, 32}, 70), 32);
  EXPECT_EQ(block_columns({1, kWhole}, 70), 70);
  EXPECT_EQ(block_columns({1, kWhole}, 0), 1) << "a divisor";
  EXPECT_EQ(blocks_of_row({1, 32}, 70), 3);
  EXPECT_EQ(blocks_of_row({1, 32}, 64), 2);
  EXPECT_EQ(blocks_of_row({1, kWhole}, 70), 1);
}

TEST(ElementWalks, RoundNanToTheCanonicalOne) {
  const auto odd = bit_cast<float>(0xFFC12345u);
  EXPECT_EQ(bit_cast<std::uint32_t>(rounded<float>(odd)), 0x7FC00000u);
  EXPECT_EQ(rounded<float>(1.5f), 1.5f);
  EXPECT_EQ(rounded<BF16>(1 + 0x1p-9f).bits, 0x3F80);
}

TEST(ElementWalks, TakeAllRowsForOneGroup) {
  const Tensor ends = ends_of({5, 5, 45});
  EXPECT_EQ(groups_of({}), 1);
  EXPECT_EQ(groups_of(ends.operand()), 3);
  EXPECT_EQ(end_of({}, 0, 70), 70);
  EXPECT_EQ(end_of(ends.operand(), 2, 70), 45);
  EXPECT_EQ(end_of(ends.operand(), 0, 70), 5);
}

TEST(ElementWalks, ReadAVectorAsTheRowOfAll) {
  Tensor vector(Dtype::f32, {4}), matrix(Dtype::f32, {3, 4});
  const auto one = as_rows<float>(vector.result());
  EXPECT_EQ(one.extent[0], 1);
  EXPECT_EQ(one.extent[1], 4);
  EXPECT_EQ(&one(2, 3), vector.as<float>() + 3) << "whatever the row";
  EXPECT_EQ(&as_rows<float>(matrix.result())(2, 3), matrix.as<float>() + 11);
}

TEST(ElementWalks, AddTheRowsOfAGroup) {
  Tensor x(Dtype::f32, {70, 2}), each(Dtype::f32, {3, 2});
  Tensor all(Dtype::f32, {2});
  const Tensor ends = ends_of({5, 5, 45}), none(Dtype::i32, {0});
  const auto rows = [&](const Operand& group_ends, const Result& sum, Index s) {
    const RowRange range = rows_of_sum({x.operand(), group_ends, sum}, s);
    return std::to_string(range.first) + "-" + std::to_string(range.past);
  };
  EXPECT_EQ(rows({}, all.result(), 0), "0-70");
  EXPECT_EQ(rows(ends.operand(), all.result(), 0), "0-45") << "of all groups";
  EXPECT_EQ(rows(none.operand(), all.result(), 0), "0-0");
  EXPECT_EQ(rows(ends.operand(), each.result(), 0), "0-5");
  EXPECT_EQ(rows(ends.operand(), each.result(), 1), "5-5");
  EXPECT_EQ(rows(ends.operand(), each.result(), 2), "5-45");
}

}  // namespace
}  // namespace mxo
