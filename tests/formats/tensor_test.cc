// Tensors that own their memory, copied and moved.
#include "formats/tensor.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mxo
