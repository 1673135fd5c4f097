// Views of tensors: extents, strides, what is contiguous, and elements.
#include <gtest/gtest.h>

#include "formats/any_view.h"

namespace mxo {
namespace {

Operand view(std::initializer_list<Index> extents, std::initializer_list<Index> strides) {
  Operand v;
  v.dtype = Dtype::bf16;
  for (const Index extent : extents) v.extent[v.rank++] = extent;
  int axis = 0;
  for (const Index stride : strides) v.stride[axis++] = stride;
  return v;
}

TEST(Views, AreGivenWhereTheyHaveAnAxis) {
  EXPECT_FALSE(Operand{}.given());
  EXPECT_TRUE(view({0}, {1}).given());
  EXPECT_TRUE(view({2, 3}, {3, 1}).given());
}

TEST(Views, CountTheirElements) {
  EXPECT_EQ(Operand{}.elements(), 1);
  EXPECT_EQ(view({5}, {7}).elements(), 5);
  EXPECT_EQ(view({2, 3, 4}, {12, 4, 1}).elements(), 24);
  EXPECT_EQ(view({2, 0, 4}, {0, 4, 1}).elements(), 0);
}

TEST(Views, AreContiguousWhereElementsAreNeighbours) {
  EXPECT_TRUE(Operand{}.contiguous());
  EXPECT_TRUE(view({5}, {1}).contiguous());
  EXPECT_FALSE(view({5}, {2}).contiguous());
  EXPECT_TRUE(view({1}, {2}).contiguous()) << "one element has no neighbour";
  EXPECT_TRUE(view({2, 3, 4}, {12, 4, 1}).contiguous());
  EXPECT_FALSE(view({2, 3, 4}, {13, 4, 1}).contiguous());
  EXPECT_FALSE(view({2, 3, 4}, {12, 5, 1}).contiguous());
  EXPECT_FALSE(view({3, 2}, {1, 3}).contiguous());
  EXPECT_TRUE(view({2, 1, 4}, {4, 99, 1}).contiguous());
}

TEST(Views, AreReadAsTheyAreWritten) {
  float data[24];
  Result result{data, Dtype::f32, 4, {2, 3, 1, 4}, {12, 4, 4, 1}};
  const Operand operand = to_read(result);
  EXPECT_EQ(operand.data, data);
  EXPECT_EQ(operand.dtype, Dtype::f32);
  EXPECT_EQ(operand.rank, 4);
  for (int axis = 0; axis < 4; ++axis) {
    EXPECT_EQ(operand.extent[axis], result.extent[axis]);
    EXPECT_EQ(operand.stride[axis], result.stride[axis]);
  }
}

TEST(Views, AreDescribedByTypeAndShape) {
  EXPECT_EQ(describe(view({2, 3, 4}, {})), "bf16 [2, 3, 4]");
  EXPECT_EQ(describe(view({7}, {})), "bf16 [7]");
  EXPECT_EQ(describe(Operand{}), "f32 []");
}

TEST(Views, FindElementsByTheirStrides) {
  const int data[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  Operand turned = view({4, 3}, {1, 4});
  turned.data = data;
  const auto typed = turned.as<const int, 2>();
  EXPECT_EQ(typed.extent[0], 4);
  EXPECT_EQ(typed.extent[1], 3);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(typed(i, j), i + 4 * j);
  }
  const Matrix<const int> rows = row_major(data, 3, 4);
  EXPECT_EQ(rows.extent[0], 3);
  EXPECT_EQ(rows.extent[1], 4);
  EXPECT_EQ(rows(2, 1), 9);
  EXPECT_EQ(rows(0, 3), 3);
  int offset_of_three[8] = {};
  const TensorView<int, 3> cube{offset_of_three, {2, 2, 2}, {4, 2, 1}};
  cube(1, 0, 1) = 6;
  EXPECT_EQ(offset_of_three[5], 6);
}

TEST(Views, RoundQuotientsUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(round_up(0, 4), 0);
  EXPECT_EQ(round_up(5, 4), 8);
  EXPECT_EQ(round_up(8, 4), 8);
}

}  // namespace
}  // namespace mxo
