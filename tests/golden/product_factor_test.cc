// Operands of products as numbers, and the scale that each stretch of a line has.
#include "golden/judge/product_factor.h"

#include <limits>

#include <gtest/gtest.h>

#include "formats/minifloat.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor bytes(std::vector<Index> shape, std::uint8_t all) {
  Tensor t(Dtype::u8, std::move(shape));
  std::fill_n(t.as<std::uint8_t>(), t.elements(), all);
  return t;
}

/// 1, 2, 3, ...
Tensor counted(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(i + 1);
  return t;
}

NamedTensors pair_of(Tensor codes, Tensor scales) {
  NamedTensors in;
  in.emplace("x.codes", std::move(codes));
  in.emplace("x.scales", std::move(scales));
  return in;
}

Parameters blocked(const char* block) {
  Parameters set;
  set.set("block_x", block);
  return set;
}

/// All ones under scales of 1, 2, 3, ...; nothing where their shapes do not fit.
std::optional<ProductFactor> ones(const NamedTensors& in, const char* block = nullptr) {
  return factor_of_rows(in, "x", block == nullptr ? Parameters() : blocked(block));
}

TEST(ProductFactor, FindsScalesOfRowsAndBlocksByTheirShapes) {
  const auto rows = [](std::vector<Index> scales, const char* block, Index line, Index at) {
    const NamedTensors in = pair_of(bytes({130, 300}, 0x38), counted(std::move(scales)));
    return ones(in, block)->scale(0, line, at);
  };
  EXPECT_EQ(rows({130}, "1xK", 129, 0), 130);
  EXPECT_EQ(rows({130, 1}, "", 129, 0), 130);
  EXPECT_EQ(rows({130, 3}, "1x128", 129, 1), 129 * 3 + 2);
  EXPECT_EQ(rows({2, 3}, "128x128", 127, 2), 3);
  EXPECT_EQ(rows({2, 3}, "128x128", 128, 0), 4);
  EXPECT_EQ(rows({2, 3}, "128x128", 128, 7), 6);  // the last one of the line
  const NamedTensors w = pair_of(bytes({2, 130, 300}, 0x38), counted({2, 2, 3}));
  const auto factor = ones(w);
  EXPECT_EQ(factor->scale(1, 128, 1), 11);
  EXPECT_EQ(factor->block_k, 128);
  EXPECT_EQ(factor->line_block, 128);
  EXPECT_EQ(factor->value[0], 1);
  const NamedTensors lines = pair_of(bytes({2, 130, 300}, 0x38), counted({2, 130}));
  EXPECT_EQ(ones(lines)->scale(1, 2, 0), 133);
  EXPECT_EQ(ones(lines)->block_k, 300);
  EXPECT_EQ(ones(lines)->line_block, 1);
}

TEST(ProductFactor, IsNoneForScalesThatDoNotFit) {
  const auto fits = [](std::vector<Index> codes, Tensor scales, const char* block) {
    return ones(pair_of(bytes(std::move(codes), 0x38), std::move(scales)), block).has_value();
  };
  EXPECT_FALSE(fits({130, 300}, counted({130, 2}), ""));
  EXPECT_FALSE(fits({130, 300}, counted({3, 3}), ""));
  EXPECT_FALSE(fits({130, 300}, counted({1, 1}), ""));
  EXPECT_FALSE(fits({2, 130, 300}, counted({2}), ""));
  EXPECT_FALSE(fits({130, 300}, counted({130, 3}), "1x100"));
  EXPECT_FALSE(fits({2, 64}, bytes({2, 1}, 127), ""));
  EXPECT_FALSE(fits({2, 64}, bytes({1, 2}, 127), ""));
  EXPECT_FALSE(fits({2, 64}, bytes({4}, 127), ""));
  EXPECT_FALSE(fits({4, 64}, bytes({2, 4}, 127), ""));
  EXPECT_FALSE(fits({2, 63}, bytes({2, 2}, 127), ""));
}

TEST(ProductFactor, HasColumnsAsLinesOfAWeightGradient) {
  NamedTensors in;
  in.emplace("x", counted({3, 2}));
  const auto factor = factor_of_columns(in, "x", {});
  EXPECT_EQ(factor->lines, 2);
  EXPECT_EQ(factor->k, 3);
  EXPECT_EQ(factor->value, (std::vector<double>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(factor->binade, (std::vector<double>{1, 2, 4, 2, 4, 4}));
  EXPECT_EQ(factor->scale_below(0, 1, 2), 1);
}

TEST(ProductFactor, RestartsItsScalesOfColumnsAtEachGroup) {
  const auto below = [](const char* block, std::vector<Index> scales, Index group, Index line,
                        Index at) {
    NamedTensors in = pair_of(bytes({300, 130}, 0x38), counted(std::move(scales)));
    in.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {3}, {129, 129, 300}));
    return factor_of_columns(in, "x", blocked(block))->scale_below(group, line, at);
  };
  // Two blocks of the first group, none of the second, two of the third.
  EXPECT_EQ(below("128x1", {4, 130}, 0, 129, 127), 130);
  EXPECT_EQ(below("128x1", {4, 130}, 0, 0, 128), 131);
  EXPECT_EQ(below("128x1", {4, 130}, 2, 5, 0), 2 * 130 + 6);
  EXPECT_EQ(below("128x1", {4, 130}, 2, 5, 149), 3 * 130 + 6);
  EXPECT_EQ(below("128x128", {4, 2}, 2, 128, 128), 8);
  EXPECT_EQ(below("128x128", {4, 2}, 0, 127, 0), 1);
  EXPECT_EQ(below("Rx1", {3, 130}, 2, 7, 149), 2 * 130 + 8);
  EXPECT_EQ(below("RxK", {3, 1}, 2, 129, 149), 3);
}

TEST(ProductFactor, IsRoundedToBf16WhereAMachineDequantisesFirst) {
  ProductFactor factor;
  factor.value = {1 + 0x1p-8, 1 + 0x1.8p-7, 0, kInf, 0x1p-133};
  factor.binade = {9, 9, 9, 9, 9};
  dequantise_to_bf16(factor);
  EXPECT_EQ(factor.value, (std::vector<double>{1, 1 + 0x1p-6, 0, kInf, 0x1p-133}));
  EXPECT_EQ(factor.binade, (std::vector<double>{1, 1, 0, 9, 0x1p-126}));
}

}  // namespace
}  // namespace mxo
