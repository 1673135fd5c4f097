// Outputs beside those that were expected: single elements, types that are not bytes, zeros.
#include "golden/explain/case/compared_outputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/golden/tensors.h"

namespace mxo {
namespace {

double sqnr(const Tensor& expected, const Tensor& actual) {
  std::vector<Output> list;
  list.push_back(make_output(Call{"op", {}, {}}, "y", expected, actual));
  return sqnr_of(list);
}

TEST(ComparedOutputs, OneElementMakesAStepDiffer) {
  NamedTensors expected;
  NamedTensors actual;
  for (const char* name : {"h.codes", "h.scales", "y"}) {
    expected.emplace(name, floats({2}, {1, 1}));
    actual.emplace(name, floats({2}, {1, 2}));
  }
  const Call call{"moe_layer", {}, {}};
  Outputs outputs = outputs_of(call, expected, actual);
  keep_first_step(call, outputs);
  ASSERT_EQ(outputs.list.size(), 2u);
  EXPECT_EQ(outputs.list[0].name, "h.codes");
  EXPECT_EQ(outputs.list[1].name, "h.scales");
  EXPECT_EQ(outputs.later, "the first step to differ is h; 1 later output differs, too");
}

TEST(ComparedOutputs, DistancesOfTwoBytesAreOfNumbers) {
  // 1, 2 and 3 in bf16, of which 3 came as 2.
  const auto expected = tensor_from<std::uint16_t>(Dtype::bf16, {3}, {0x3F80, 0x4000, 0x4040});
  const auto actual = tensor_from<std::uint16_t>(Dtype::bf16, {3}, {0x3F80, 0x4000, 0x4000});
  EXPECT_NEAR(sqnr(expected, actual), 10 * std::log10(14.0), 1e-12);
}

TEST(ComparedOutputs, TheLeastScaleIsANumber) {
  const auto expected = tensor_from<std::uint8_t>(Dtype::e8m0, {2}, {0, 0});
  const auto actual = tensor_from<std::uint8_t>(Dtype::e8m0, {2}, {0, 1});  // 2^-127, 2^-126
  EXPECT_NEAR(sqnr(expected, actual), 10 * std::log10(2.0), 1e-12);
}

TEST(ComparedOutputs, ZerosThatAreRightAreNoDistanceApart) {
  EXPECT_EQ(sqnr(floats({2}, {0, 0}), floats({2}, {0, -0.0f})),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace mxo
