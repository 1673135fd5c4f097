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

Tensor numbers(std::vector<std::int32_t> values) {
  Tensor t(Dtype::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  return t;
}

TEST(Checks, SayWhatWasFoundAndWhatIsNeeded) {
  const Tensor t(Dtype::bf16, {2, 3});
  const Operand x = t.operand();
  EXPECT_EQ(refusal([&] { kCheck.rank("x", x, 2); }), "");
  EXPECT_EQ(refusal([&] { kCheck.rank("x", x, 1, 2); }), "");
  EXPECT_EQ(refusal([&] { kCheck.rank("x", x, 2, 4); }), "");
  EXPECT_EQ(refusal([&] { kCheck.rank("x", x, 3); }), "op: x: found bf16 [2, 3], needs rank 3");
  EXPECT_EQ(refusal([&] { kCheck.rank("x", x, 1); }), "op: x: found bf16 [2, 3], needs rank 1");
  EXPECT_EQ(refusal([&] { kCheck.rank("x", x, 3, 4); }),
            "op: x: found bf16 [2, 3], needs rank 3 to 4");
  EXPECT_EQ(refusal([&] { kCheck.dtype("x", x, {Dtype::f32, Dtype::bf16}); }), "");
  EXPECT_EQ(refusal([&] { kCheck.dtype("x", x, {Dtype::f32}); }), "op: x: found bf16, needs f32");
  EXPECT_EQ(refusal([&] {
              kCheck.dtype("x", x, {Dtype::f32, Dtype::f16});
            }),
            "op: x: found bf16, needs f32 or f16");
  EXPECT_EQ(refusal([&] { kCheck.shape("x", x, {2, 3}); }), "");
  for (const std::vector<Index>& other : {std::vector<Index>{2, 4}, {1, 3}}) {
    EXPECT_EQ(refusal([&] { kCheck.shape("x", x, other); }), "op: x: found bf16 [2, 3], needs [" +
                                                              std::to_string(other[0]) + ", " +
                                                              std::to_string(other[1]) + "]");
  }
  EXPECT_EQ(refusal([&] { kCheck.shape("x", x, {2}); }), "op: x: found bf16 [2, 3], needs [2]");
  EXPECT_EQ(refusal([&] { kCheck.multiple("x", "K", 64, 32); }), "");
  EXPECT_EQ(refusal([&] { kCheck.multiple("x", "K", 65, 32); }),
            "op: x: K is 65, not a multiple of 32");
  EXPECT_EQ(refusal([&] { kCheck.fail(Fault::argument, "why"); }), "op: why");
}

TEST(Checks, NameTheEndThatIsWrong) {
  const auto ends = [](std::vector<std::int32_t> values, Index multiple, bool host = true) {
    const Tensor t = numbers(std::move(values));
    return refusal([&] { kCheck.group_ends(Bare(host), t.operand(), 8, multiple); });
  };
  EXPECT_EQ(ends({0, 4, 4, 8}, 4), "");
  EXPECT_EQ(ends({0, 5}, 1), "");
  EXPECT_EQ(ends({-1}, 1),
            "op: group_ends: entry 0 is -1, below its predecessor 0; cumulative ends cannot "
            "decrease");
  EXPECT_EQ(ends({4, 3}, 1),
            "op: group_ends: entry 1 is 3, below its predecessor 4; cumulative ends cannot "
            "decrease");
  EXPECT_EQ(ends({9}, 1), "op: group_ends: entry 0 is 9, beyond the 8 rows given");
  EXPECT_EQ(ends({4, 6}, 4), "op: group_ends: entry 1 is 6, not a multiple of 4");
  EXPECT_EQ(ends({4, 3}, 1, false), "") << "a device reads them itself";
  const Tensor wide(Dtype::i64, {1}), flat(Dtype::i32, {1, 1});
  EXPECT_NE(refusal([&] { kCheck.group_ends(Bare(false), wide.operand(), 8); }), "");
  EXPECT_NE(refusal([&] { kCheck.group_ends(Bare(false), flat.operand(), 8); }), "");
}

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

TEST(Checks, LetWhatIsReadRepeatItself) {
  Tensor memory(Dtype::f32, {100}), other(Dtype::f32, {1});
  EXPECT_EQ(
      refusal([&] { kCheck.apart("b", other.result(), "a", to_read(part(memory, 0, {4}, {0}))); }),
      "");
}

}  // namespace
}  // namespace mxo
