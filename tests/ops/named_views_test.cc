// Operands by name, and elements copied between any strides.
#include "ops/named_views.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "formats/error.h"

namespace mxo {
namespace {

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

TEST(NamedViews, OperandsAndResultsAreFoundByName) {
  NamedTensors tensors;
  tensors.emplace("x", Tensor(Dtype::f32, {2, 3}));
  tensors.emplace("w", Tensor(Dtype::bf16, {4}));
  NamedViews views(tensors);
  EXPECT_TRUE(views.contains("x"));
  EXPECT_FALSE(views.contains("y"));
  ASSERT_NE(views.find("x"), nullptr);
  EXPECT_EQ(views.find("x")->view.data, tensors.at("x").data());
  EXPECT_EQ(views.find("x")->shape(), (std::vector<Index>{2, 3}));
  EXPECT_EQ(views.find("y"), nullptr);
  Tensor other(Dtype::f32, {5});
  views.set("x", other);
  EXPECT_EQ(views.find("x")->elements(), 5);
  views.erase("w");
  EXPECT_FALSE(views.contains("w"));
  views.erase("w");
  EXPECT_TRUE(views.contains("x")) << "what is not there is not erased";
  EXPECT_EQ(views.result("y"), nullptr);
  views.write_to("y", other);
  ASSERT_NE(views.result("y"), nullptr);
  EXPECT_EQ(views.result("y")->view.data, other.data());
}

TEST(NamedViews, RankFourIsTheMost) {
  NamedTensors tensors;
  tensors.emplace("four", Tensor(Dtype::f32, {1, 1, 1, 1}));
  EXPECT_TRUE(NamedViews(tensors).contains("four"));
  tensors.emplace("five", Tensor(Dtype::f32, {1, 1, 1, 1, 1}));
  try {
    (void)NamedViews(tensors);
    ADD_FAILURE() << "rank 5 was taken";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "five: found rank 5, needs rank 0 to 4");
  }
}

}  // namespace
}  // namespace mxo
