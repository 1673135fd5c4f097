// Views over anyone's memory: where two meet, how many scales they have, and copies.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/checked.h"
#include "ops/named_views.h"
#include "ops/scaled_tensor.h"
#include "tests/support/refusal.h"

namespace mxo::checks_test {
namespace {

constexpr Check kCheck("op");

/// `shape` floats from element `at` of one memory.
Result part(Tensor& memory, Index at, std::initializer_list<Index> shape,
            std::initializer_list<Index> stride = {}) {
  return view_of(static_cast<void*>(memory.as<float>() + at), Dtype::f32,
                 {shape.begin(), shape.size()}, {stride.begin(), stride.size()});
}

TEST(Checks, FindTheBytesThatTwoViewsShare) {
  Tensor memory(Dtype::f32, {100});
  const auto apart = [](const Result& a, const Result& b) {
    const std::string one = refusal([&] { kCheck.apart("a", a, "b", b); });
    EXPECT_EQ(one.empty(), refusal([&] { kCheck.apart("b", b, "a", a); }).empty());
    EXPECT_TRUE(one.empty() || one == "op: a: shares memory with b") << one;
    return one.empty();
  };
  const Result ten = part(memory, 20, {10});  // 20 to 29
  EXPECT_TRUE(apart(ten, part(memory, 10, {10})));
  EXPECT_FALSE(apart(ten, part(memory, 10, {11})));
  EXPECT_FALSE(apart(ten, part(memory, 29, {1})));
  EXPECT_TRUE(apart(ten, part(memory, 30, {1})));
  // Strides: 10, 15 and 20, 25; the last element is what counts.
  EXPECT_TRUE(apart(ten, part(memory, 10, {2, 2}, {4, 5})));
  EXPECT_FALSE(apart(ten, part(memory, 10, {2, 2}, {5, 10})));
  EXPECT_FALSE(apart(ten, part(memory, 12, {3, 1}, {4, 90})));
  EXPECT_TRUE(apart(ten, part(memory, 12, {1, 2}, {90, 7})));
  // Backward: from element 40 down.
  EXPECT_TRUE(apart(ten, part(memory, 40, {11}, {-1})));
  EXPECT_FALSE(apart(ten, part(memory, 40, {12}, {-1})));
  EXPECT_TRUE(apart(ten, part(memory, 19, {10}, {-1})));
  EXPECT_FALSE(apart(ten, part(memory, 40, {2, 2}, {-12, 3})));
  // What is empty covers nothing, wherever it lies.
  EXPECT_TRUE(apart(ten, part(memory, 25, {0})));
  EXPECT_TRUE(apart(ten, part(memory, 25, {0, 9})));
  EXPECT_TRUE(apart(ten, part(memory, 15, {30, 0}, {1, 1})));
}

TEST(Checks, RefuseResultsThatMeetThemselves) {
  Tensor memory(Dtype::f32, {100}), other(Dtype::f32, {1});
  const auto fits = [&](std::initializer_list<Index> shape, std::initializer_list<Index> stride) {
    const std::string what =
        refusal([&] { kCheck.apart("a", part(memory, 50, shape, stride), "b", other.operand()); });
    EXPECT_TRUE(what.empty() || what == "op: a: covers one of its elements twice") << what;
    return what.empty();
  };
  EXPECT_FALSE(fits({4}, {0}));
  EXPECT_FALSE(fits({2, 4}, {0, 1}));
  EXPECT_FALSE(fits({2, 2}, {1, 1}));
  EXPECT_FALSE(fits({2, 3, 2}, {-1, 4, 1}));
  EXPECT_TRUE(fits({1, 4}, {0, 1}));
  EXPECT_TRUE(fits({4, 1}, {1, 1}));
  EXPECT_TRUE(fits({1, 4}, {1, 1}));
  EXPECT_TRUE(fits({2, 0}, {0, 1}));
  EXPECT_TRUE(fits({2, 4}, {-4, 1}));
}

using Shape = std::vector<Index>;

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
  for (const bool host : {false, true})
    EXPECT_EQ(most_row_blocks(Bare(host), groups, kWhole, 80), 3);
}

/// A view of `shape` with these strides into memory from `data` on.
template <typename Void>
AnyView<Void> view(Void* data, Dtype dtype, const std::vector<Index>& shape,
                   const std::vector<Index>& strides) {
  AnyView<Void> v;
  v.data = data;
  v.dtype = dtype;
  v.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), v.extent);
  std::copy(strides.begin(), strides.end(), v.stride);
  return v;
}

/// Holds copy_elements() against a loop over every index, and that nothing else was written.
void expect_copied(const std::vector<Index>& shape, const std::vector<Index>& from,
                   const std::vector<Index>& to) {
  std::vector<std::uint16_t> source(4096), target(4096, 0xEEEE);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> wanted = target;
  Index count = 1;
  for (const Index e : shape) count *= e;
  for (Index i = 0; i < count; ++i) {
    Index rest = i;
    Index read = 2000;
    Index write = 2000;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      read += rest % shape[axis] * from[axis];
      write += rest % shape[axis] * to[axis];
      rest /= shape[axis];
    }
    wanted[static_cast<std::size_t>(write)] = source[static_cast<std::size_t>(read)];
  }
  copy_elements(view<const void>(source.data() + 2000, Dtype::bf16, shape, from),
                view<void>(target.data() + 2000, Dtype::u16, shape, to));
  EXPECT_EQ(target, wanted);
}

TEST(NamedViews, ElementsAreCopiedBetweenAnyStrides) {
  expect_copied({}, {}, {});
  expect_copied({7}, {1}, {1});
  expect_copied({7}, {3}, {1});
  expect_copied({7}, {1}, {3});
  expect_copied({7}, {-2}, {5});
  expect_copied({5, 7}, {7, 1}, {7, 1});
  expect_copied({5, 7}, {1, 5}, {7, 1});
  expect_copied({3, 5, 7}, {100, 9, 1}, {35, 7, 1});
  expect_copied({2, 3, 5, 7}, {300, 90, -8, 1}, {105, 35, 7, 1});
  expect_copied({2, 3, 5, 7}, {105, 35, 7, 1}, {1, 2, 6, 30});
  expect_copied({1, 1, 1, 1}, {9, 9, 9, 9}, {9, 9, 9, 9});
  expect_copied({2, 3}, {0, 0}, {3, 1});
}

TEST(NamedViews, NothingIsCopiedOfNothing) {
  std::uint16_t source = 1;
  std::uint16_t target = 2;
  copy_elements(view<const void>(&source, Dtype::bf16, {0, 4}, {4, 1}),
                view<void>(&target, Dtype::bf16, {0, 4}, {4, 1}));
  copy_elements(view<const void>(nullptr, Dtype::bf16, {4, 0}, {0, 1}),
                view<void>(nullptr, Dtype::bf16, {4, 0}, {0, 1}));
  EXPECT_EQ(target, 2);
}

TEST(NamedViews, RankFourIsTheMost) {
  NamedTensors tensors{{"four", Tensor(Dtype::f32, {1, 1, 1, 1})}};
  EXPECT_TRUE(NamedViews(tensors).contains("four"));
  tensors.emplace("five", Tensor(Dtype::f32, {1, 1, 1, 1, 1}));
  EXPECT_EQ(refusal([&] { (void)NamedViews(tensors); }), "five: found rank 5, needs rank 0 to 4");
}

}  // namespace
}  // namespace mxo::checks_test
