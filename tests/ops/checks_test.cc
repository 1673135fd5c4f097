// The words of argument errors, and where memory is shared.
#include <gtest/gtest.h>

#include "formats/error.h"
#include "formats/tensor.h"
#include "ops/checked.h"
#include "ops/scaled_tensor.h"
#include "tests/support/refusal.h"

namespace mxo {
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

}  // namespace
}  // namespace mxo
