// Scales of which the largest of several stands for all: whose, in which words, and which they are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

CausesListed sharings_of(const Call& call) { return {call, add_shared_scales}; }

/// Scales x [2, 2] and w [2, n, 2].
Call shared(Tensor x, Tensor w) {
  Call call = forward_call({1, 2}, w.extent(1), 64);
  call.replace("x.scales", std::move(x));
  call.replace("w.scales", std::move(w));
  return call;
}

Tensor bytes(std::vector<Index> shape, std::initializer_list<std::uint8_t> values) {
  return tensor_from<std::uint8_t>(Dtype::u8, std::move(shape), values);
}

TEST(SharedScaleHypotheses, AreInWords) {
  const CausesListed causes =
      sharings_of(shared(counted_bytes({2, 2}, 1), counted_bytes({2, 2, 2}, 11)));
  EXPECT_EQ(causes.phrases(),
            (Words{"every row of x takes the largest of its scales, codes as they are",
                   "all of x takes the largest of its scales, codes as they are",
                   "both halves of w take the larger of their scales, codes as they are",
                   "lines 2 i and 2 i + 1 of w take the larger of their scales, codes as they are",
                   "every row of w takes the largest of its scales, codes as they are",
                   "every expert of w takes the largest of its scales, codes as they are",
                   "all of w takes the largest of its scales, codes as they are"}));
  EXPECT_EQ(causes.names(), (Words{"x.scales=largest_of_line", "x.scales=largest_of_tensor",
                                   "w.scales=largest_of_halves", "w.scales=largest_of_pairs",
                                   "w.scales=largest_of_line", "w.scales=largest_of_expert",
                                   "w.scales=largest_of_tensor"}));
  for (const Hypothesis& h : causes.list) {
    EXPECT_EQ(h.stage, Stage::input);
    EXPECT_FALSE(h.local) << "the largest may lie in another slice";
  }
}

TEST(SharedScaleHypotheses, AreOfForwardProductsWithScales) {
  EXPECT_EQ(sharings_of(gradient_call({32}, 2, 2)).list.size(), 0u);
  EXPECT_EQ(sharings_of({"cast", {}, {}}).list.size(), 0u);
  EXPECT_EQ(sharings_of(lines_by_lines({2}, 2, 2)).list.size(), 0u);
  Call call = coded_product(2, 2, 1);
  call.inputs.erase("x.scales");
  EXPECT_EQ(sharings_of(call).list.size(), 5u);
  call = coded_product(2, 2, 1);
  call.replace("w.scales", Tensor(Dtype::f32, {1}));
  EXPECT_EQ(sharings_of(call).names(),
            (Words{"x.scales=largest_of_line", "x.scales=largest_of_tensor"}))
      << "one for all weights";
  call.replace("x.scales", Tensor(Dtype::f32, {}));
  EXPECT_EQ(sharings_of(call).names(), Words{}) << "one for each side";
  call.replace("w.scales", Tensor(Dtype::f32, {1, 2}));
  EXPECT_EQ(sharings_of(call).names("w.").size(), 5u);
}

TEST(SharedScaleHypotheses, OfLinesAndAll) {
  const CausesListed causes =
      sharings_of(shared(bytes({2, 2}, {3, 1, 2, 5}), bytes({2, 2, 2}, {1, 2, 4, 3, 8, 5, 6, 7})));
  EXPECT_EQ(operand_if(causes, "x.scales=largest_of_line", "x.scales"), (Numbers{3, 3, 5, 5}));
  EXPECT_EQ(operand_if(causes, "x.scales=largest_of_tensor", "x.scales"), (Numbers{5, 5, 5, 5}));
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_line", "w.scales"),
            (Numbers{2, 2, 4, 4, 8, 8, 7, 7}));
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_expert", "w.scales"),
            (Numbers{4, 4, 4, 4, 8, 8, 8, 8}));
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_tensor", "w.scales"),
            (Numbers{8, 8, 8, 8, 8, 8, 8, 8}));
}

/// Two experts of four lines: line 0 goes with line 2, or with line 1.
TEST(SharedScaleHypotheses, OfHalvesAndPairs) {
  const Tensor w = bytes({2, 4, 2}, {1, 20, 2, 3, 9, 4, 8, 5, 30, 6, 31, 7, 10, 40, 11, 12});
  const CausesListed causes = sharings_of(shared(counted_bytes({2, 2}, 1), w));
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_halves", "w.scales"),
            (Numbers{9, 20, 8, 5, 9, 20, 8, 5, 30, 40, 31, 12, 30, 40, 31, 12}));
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_pairs", "w.scales"),
            (Numbers{2, 20, 2, 20, 9, 5, 9, 5, 31, 7, 31, 7, 11, 40, 11, 40}));
}

TEST(SharedScaleHypotheses, OfAnOddLineOfPairsIsItsOwn) {
  const CausesListed causes = sharings_of(
      shared(counted_bytes({2, 2}, 1), bytes({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})));
  EXPECT_FALSE(causes.altered("w.scales=largest_of_halves")) << "three lines have no halves";
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_pairs", "w.scales"),
            (Numbers{3, 4, 3, 4, 5, 6, 9, 10, 9, 10, 11, 12}));
}

/// Byte 255 is NaN, and larger than nothing; where all are, they stay.
TEST(SharedScaleHypotheses, OfNaNAreTheOthers) {
  const CausesListed causes = sharings_of(
      shared(bytes({2, 2}, {255, 1, 255, 255}), bytes({2, 2, 2}, {1, 255, 2, 2, 3, 3, 4, 4})));
  EXPECT_EQ(operand_if(causes, "x.scales=largest_of_line", "x.scales"), (Numbers{1, 1, 255, 255}));
  EXPECT_EQ(operand_if(causes, "w.scales=largest_of_line", "w.scales"),
            (Numbers{1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST(SharedScaleHypotheses, OfF32KeepTheirBits) {
  Call call = coded_product(2, 2, 1, 64);
  call.replace("x.scales", floats({2, 2}, {-1, -2, 0.1f, 0.3f}));
  call.replace("w.scales", floats({1, 2, 2}, {1, 1, 2, 2}));
  const CausesListed causes = sharings_of(call);
  EXPECT_EQ(operand_if(causes, "x.scales=largest_of_line", "x.scales"),
            (Numbers{-1, -1, 0.3f, 0.3f}));
  EXPECT_FALSE(causes.altered("w.scales=largest_of_line")) << "they are alike";
  call.replace("x.scales", floats({2}, {1, 2}));
  EXPECT_EQ(operand_if(sharings_of(call), "x.scales=largest_of_tensor", "x.scales"),
            (Numbers{2, 2}));
  EXPECT_FALSE(sharings_of(call).altered("x.scales=largest_of_line"));
}

/// Of equal values the first stands: -0 is no larger than 0.
TEST(SharedScaleHypotheses, OfEqualsTakeTheFirst) {
  Call call = coded_product(1, 1, 1, 64);
  call.replace("x.scales", floats({1, 2}, {0.0f, -0.0f}));
  const Call other = sharings_of(call).altered("x.scales=largest_of_line").value();
  EXPECT_FALSE(std::signbit(other.input("x.scales").as<float>()[1]));
}

}  // namespace
}  // namespace mxo
