// Operands of products as numbers, and the scale that each stretch of a line has.
#include "golden/judge/product_factor.h"

#include <gtest/gtest.h>

#include "tests/golden/tensors.h"

namespace mxo {
namespace {

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

}  // namespace
}  // namespace mxo
