// Operands of products as numbers, and the scale that each stretch of a line has.
#include "golden/judge/product_factor.h"

#include <cmath>
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

std::optional<ProductFactor> plain_rows(Tensor x) {
  NamedTensors in;
  in.emplace("x", std::move(x));
  return factor_of_rows(in, "x", {});
}

TEST(ProductFactor, HasPlainElementsAsTheyAre) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::u16}) {
    const auto factor = plain_rows(tensor_from<std::uint16_t>(dtype, {2, 1}, {0x3FC0, 0xC000}));
    EXPECT_EQ(factor->type, Dtype::bf16);
    EXPECT_EQ(factor->value, (std::vector<double>{1.5, -2}));
    EXPECT_EQ(factor->binade, (std::vector<double>{1, 2}));
    EXPECT_EQ(factor->lines, 2);
    EXPECT_EQ(factor->k, 1);
    EXPECT_EQ(factor->block_k, 1);
    EXPECT_EQ(factor->scale(0, 1, 0), 1);
    EXPECT_EQ(factor->scale_below(0, 1, 0), 1);
    EXPECT_FALSE(factor->blocks_of_32);
  }
  for (const Dtype dtype : {Dtype::f32, Dtype::i32, Dtype::u32}) {
    const auto factor = plain_rows(tensor_from<std::uint32_t>(dtype, {1, 1}, {0x40400000}));
    EXPECT_EQ(factor->type, Dtype::f32);
    EXPECT_EQ(factor->value[0], 3);
  }
  EXPECT_EQ(plain_rows(tensor_from<std::uint16_t>(Dtype::f16, {1, 1}, {0x3E00}))->value[0], 1.5);
}

TEST(ProductFactor, HasBinadesOfZeroWhereNothingIsFinite) {
  const auto factor = plain_rows(floats({1, 5}, {0, -0.0f, kInf, -kInf, std::nanf("")}));
  EXPECT_EQ(factor->binade, std::vector<double>(5, 0));
  EXPECT_EQ(factor->value[2], kInf);
}

/// A matrix unit takes what is below as if it had the exponent of the least normal number.
TEST(ProductFactor, HasNoBinadeBelowTheNormalNumbers) {
  const auto least = [](const char* format) {
    Parameters set;
    set.set("format_x", format);
    return factor_of_rows(pair_of(bytes({1, 32}, 1), bytes({1, 1}, 127)), "x", set)->binade[0];
  };
  EXPECT_EQ(least("e4m3"), 0x1p-6);
  EXPECT_EQ(least("e4m3fnuz"), 0x1p-7);
  EXPECT_EQ(least("e5m2"), 0x1p-14);
  EXPECT_EQ(least("e5m2fnuz"), 0x1p-15);
  EXPECT_EQ(plain_rows(tensor_from<std::uint16_t>(Dtype::f16, {1, 1}, {1}))->binade[0], 0x1p-14);
  EXPECT_EQ(plain_rows(tensor_from<std::uint16_t>(Dtype::bf16, {1, 1}, {1}))->binade[0], 0x1p-126);
}

TEST(ProductFactor, HoldsItsScalesOfBlocksOf32) {
  NamedTensors in = pair_of(bytes({2, 64}, 0x3C), bytes({2, 2}, 127));  // 1.5
  for (Index i = 0; i < 4; ++i) {
    in.at("x.scales").as<std::uint8_t>()[i] = static_cast<std::uint8_t>(128 + i);
  }
  for (const char* block : {"", "1x32"}) {
    const auto factor = ones(in, block);
    ASSERT_TRUE(factor);
    EXPECT_TRUE(factor->blocks_of_32);
    EXPECT_EQ(factor->scales, nullptr);
    for (Index i = 0; i < 128; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(factor->binade[at], std::ldexp(1.0, static_cast<int>(i / 32) + 1));
      EXPECT_EQ(factor->value[at], 1.5 * factor->binade[at]);
    }
    EXPECT_EQ(factor->values_of(1), factor->value.data() + 64);
    EXPECT_EQ(factor->binades_of(1), factor->binade.data() + 64);
  }
  EXPECT_FALSE(ones(in, "1x64"));
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

TEST(ProductFactor, HoldsItsScalesOfBlocksOf32RowsByColumn) {
  NamedTensors in = pair_of(bytes({64, 3}, 0x38), bytes({2, 3}, 127));
  for (Index i = 0; i < 6; ++i) {
    in.at("x.scales").as<std::uint8_t>()[i] = static_cast<std::uint8_t>(127 + i);
  }
  const auto factor = factor_of_columns(in, "x", blocked("32x1"));
  ASSERT_TRUE(factor);
  EXPECT_TRUE(factor->blocks_of_32);
  for (Index c = 0; c < 3; ++c) {
    for (Index r = 0; r < 64; ++r) {
      EXPECT_EQ(factor->values_of(c)[r], std::ldexp(1.0, static_cast<int>(r / 32 * 3 + c)));
    }
  }
  EXPECT_TRUE(factor_of_columns(in, "x", {}));
  EXPECT_FALSE(factor_of_columns(in, "x", blocked("64x1")));
  const auto fits = [](std::vector<Index> codes, std::vector<Index> scales) {
    return factor_of_columns(pair_of(bytes(std::move(codes), 0x38), bytes(std::move(scales), 127)),
                             "x", {})
        .has_value();
  };
  EXPECT_FALSE(fits({64, 3}, {6}));
  EXPECT_FALSE(fits({64, 3}, {3, 3}));
  EXPECT_FALSE(fits({64, 3}, {2, 2}));
  EXPECT_FALSE(fits({64, 3}, {2, 3, 1}));
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
