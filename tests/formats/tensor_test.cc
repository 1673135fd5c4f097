// Tensors, views of them, and the memory that there is.
#include <gtest/gtest.h>

#include "formats/memory_room.h"
#include "formats/tensor.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

Tensor counted() {
  Tensor t(Dtype::i32, {2, 3});
  for (int i = 0; i < 6; ++i) t.as<std::int32_t>()[i] = i;
  return t;
}

void expect_nothing(const Tensor& t) {
  EXPECT_EQ(t.rank(), 0);
  EXPECT_EQ(t.bytes(), 0u);
  EXPECT_EQ(t.data(), nullptr);
  EXPECT_FALSE(t.operand().given());
  EXPECT_EQ(t.elements(), 1);  // of no extents
}

void expect_counted(const Tensor& t) {
  ASSERT_EQ(t.shape(), (std::vector<Index>{2, 3}));
  EXPECT_EQ(t.dtype(), Dtype::i32);
  EXPECT_EQ(t.bytes(), 24u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t.as<std::int32_t>()[i], i);
  EXPECT_EQ(t.elements(), 6);
}

TEST(Tensor, BeginsAsAlignedZeros) {
  const Tensor t(Dtype::bf16, {3, 5});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % 64, 0u);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(t.as<std::uint16_t>()[i], 0);
  EXPECT_EQ(Tensor(Dtype::f32, {}).bytes(), 4u) << "rank 0 is one element";
  EXPECT_NE(Tensor(Dtype::f32, {0, 4}).data(), nullptr) << "an empty tensor is given";
}

TEST(Tensor, CopiesAreItsOwn) {
  const Tensor given = counted();
  Tensor copy = given;
  expect_counted(copy);
  copy.as<std::int32_t>()[0] = 9;
  expect_counted(given);
  copy = given;
  expect_counted(copy);
}

TEST(Tensor, OneWithoutAShapeIsCopied) {
  const Tensor none;
  expect_nothing(none);
  const Tensor copy = none;
  expect_nothing(copy);
  Tensor assigned = counted();
  assigned = none;
  expect_nothing(assigned);
}

TEST(Tensor, WhatWasMovedFromIsNothing) {
  Tensor given = counted();
  const Tensor taken = std::move(given);
  expect_counted(taken);
  expect_nothing(given);  // NOLINT: what it is then is the question
  const Tensor copy = given;
  expect_nothing(copy);
  given = taken;
  expect_counted(given);
  Tensor other;
  other = std::move(given);
  expect_counted(other);
  expect_nothing(given);
}

TEST(Tensor, StaysItselfWhenItIsAssignedToItself) {
  Tensor t = counted();
  Tensor& same = t;
  t = same;
  expect_counted(t);
  t = std::move(same);
  expect_counted(t);
}

TEST(Tensor, IsReadAsATypeOfTheSameSizeOnly) {
  Tensor t(Dtype::u8, {4});
  t.reinterpret_as(Dtype::e4m3);
  EXPECT_EQ(t.dtype(), Dtype::e4m3);
  EXPECT_THROW(t.reinterpret_as(Dtype::bf16), Error);
  EXPECT_EQ(t.dtype(), Dtype::e4m3);
}

TEST(Tensor, OfRankAboveFourIsNoOperand) {
  const Tensor t(Dtype::f32, {1, 1, 1, 1, 1});
  EXPECT_THROW((void)t.operand(), Error);
  const Tensor four(Dtype::f32, {2, 3, 4, 5});
  EXPECT_EQ(four.operand().data, four.data());
  EXPECT_EQ(four.operand().dtype, Dtype::f32);
  EXPECT_EQ(four.operand().extent[0], 2);
  EXPECT_EQ(four.operand().stride[0], 60);
  EXPECT_EQ(four.operand().stride[3], 1);
}

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

std::string said_of(Dtype dtype, const std::vector<Index>& shape) {
  return refusal([&] { require_room("q: y", dtype, shape); });
}

TEST(MemoryRoom, WhatFitsPasses) {
  EXPECT_EQ(said_of(Dtype::f32, {1024, 1024}), "");
  EXPECT_EQ(said_of(Dtype::f32, {}), "");
  EXPECT_EQ(said_of(Dtype::f32, {0, Index{1} << 62, Index{1} << 62}), "");
}

TEST(MemoryRoom, MoreThanThereIsIsRefused) {
  const std::string petabyte = said_of(Dtype::u8, {Index{1} << 25, Index{1} << 25});
  EXPECT_TRUE(petabyte.starts_with("q: y: found u8 [33554432, 33554432], needs at most the "));
  // Products that wrap around to 0 and to 4 bytes.
  EXPECT_NE(said_of(Dtype::f32, {Index{1} << 62}), "");
  EXPECT_NE(said_of(Dtype::f32, {(Index{1} << 62) + 1}), "");
}

TEST(MemoryRoom, ExtentsBelowZeroAreRefused) {
  EXPECT_EQ(said_of(Dtype::bf16, {3, -1}), "q: y: found bf16 [3, -1], needs extents of at least 0");
}

}  // namespace
}  // namespace mxo
