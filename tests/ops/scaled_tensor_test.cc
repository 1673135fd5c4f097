// Views over anyone's memory, and how many scales a tensor has.
#include "ops/scaled_tensor.h"

#include <gtest/gtest.h>

#include "ops/backend.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

using Shape = std::vector<Index>;

TEST(ScaledTensor, ViewsAreRowMajorUnlessToldStrides) {
  float memory[12] = {};
  const Operand plain = view_of(static_cast<const void*>(memory), Dtype::f32, {3, 4});
  EXPECT_TRUE(plain.contiguous());
  EXPECT_EQ(plain.data, memory);
  EXPECT_EQ(plain.stride[0], 4);
  EXPECT_EQ(view_of(static_cast<const void*>(memory), Dtype::u8, {3, 4}).dtype, Dtype::u8);
  const Result strided = view_of(static_cast<void*>(memory), Dtype::f32, {3, 2}, {4, 2});
  EXPECT_FALSE(strided.contiguous());
  EXPECT_EQ(strided.stride[1], 2);
}

TEST(ScaledTensor, ViewsRefuseWhatTheyCannotHold) {
  const void* none = nullptr;
  EXPECT_THROW(view_of(none, Dtype::f32, {1, 1, 1, 1, 1}), Error);
  EXPECT_EQ(view_of(none, Dtype::f32, {1, 2, 3, 4}).rank, 4);
  EXPECT_EQ(view_of(none, Dtype::f32, {0, 2}).elements(), 0);
  EXPECT_THROW(view_of(none, Dtype::f32, {2, -1}), Error);
  EXPECT_THROW(view_of(none, Dtype::f32, {2, 2}, {1}), Error);
}

TEST(ScaledTensor, ScalesHaveOneEntryForEachBlock) {
  const Shape x = {3, 130, 257};
  EXPECT_EQ(shape_of_scales(x, {1, 32}), (Shape{3, 130, 9}));
  EXPECT_EQ(shape_of_scales(x, kSquareBlock), (Shape{3, 2, 3}));
  EXPECT_EQ(shape_of_scales(x, kWholeRow), (Shape{3, 130, 1}));
  EXPECT_EQ(shape_of_scales(x, kWholeTensor), (Shape{3, 1, 1}));
  EXPECT_EQ(shape_of_scales(Shape{0, 7}, kWholeColumn), (Shape{1, 7}));
  EXPECT_EQ(shape_of_scales(Shape{40}, kMxColumns), (Shape{2}));
  EXPECT_EQ(shape_of_scales(x, kMxColumns, ScaleStorage::blocked), (Shape{3, 3072}));
  EXPECT_EQ(shape_of_scales(Shape{130, 257}, kMxColumns, ScaleStorage::blocked), (Shape{3072}));
  EXPECT_EQ(shape_of_scales(Shape{}, kMxColumns), Shape{});
  EXPECT_EQ(shape_of_scales(Shape{40}, BlockExtents{8, 32}), (Shape{2}));
  EXPECT_EQ(shape_of_scales(Shape{40}, kMxColumns, ScaleStorage::blocked), (Shape{2}));
}

TEST(ScaledTensor, BlocksOfGroupsOnADeviceAreBounded) {
  const std::int32_t ends[] = {30, 30, 70};
  const Operand groups = view_of(static_cast<const void*>(ends), Dtype::i32, {3});
  EXPECT_EQ(most_row_blocks(Bare(true), groups, 32, 80), 3);
  EXPECT_EQ(most_row_blocks(Bare(false), groups, 32, 80), 2 + 3);
  for (const bool host : {false, true}) {
    EXPECT_EQ(most_row_blocks(Bare(host), groups, kWhole, 80), 3);
  }
}

TEST(ScaledTensor, BlocksStartAgainAtEachGroup) {
  const std::int32_t ends[] = {130, 130, 131};
  const Operand groups = view_of(static_cast<const void*>(ends), Dtype::i32, {3});
  EXPECT_EQ(row_blocks(groups, 128), 3);
  EXPECT_EQ(row_blocks(groups, kWhole), 3);
  const std::int32_t one_more[] = {129, 258};
  EXPECT_EQ(row_blocks(view_of(static_cast<const void*>(one_more), Dtype::i32, {2}), 128), 4);
  EXPECT_EQ(shape_of_scales(Shape{131, 300}, kSquareBlock, row_blocks(groups, 128)), (Shape{3, 3}));
}

TEST(ScaledTensor, BlocksAreNamedByTheirExtents) {
  EXPECT_EQ(name_of(BlockExtents{}), "1x32");
  EXPECT_EQ(name_of(kWholeRow), "1xK");
  EXPECT_EQ(name_of(kWholeColumn), "Rx1");
  EXPECT_EQ(name_of(kWholeTensor), "RxK");
}

}  // namespace
}  // namespace mxo
