// Where the scale of each code lies, for every shape that scales have; and that of each stretch of
// a line of a product.
#include "golden/judge/scale_map.h"

#include <gtest/gtest.h>

#include "formats/scale_layout.h"
#include "golden/judge/product_factor.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Shape = std::vector<Index>;

ScaleHints block(Index rows, Index columns) {
  ScaleHints hints;
  hints.block = BlockExtents{rows, columns};
  return hints;
}

ScaleHints groups(std::vector<Index> ends, std::optional<BlockExtents> extents = {}) {
  ScaleHints hints;
  hints.block = extents;
  hints.group_ends = std::move(ends);
  return hints;
}

void expect_map(const Shape& codes, const Shape& scales, Dtype type, const ScaleHints& hints,
                const std::function<Index(Index)>& scale_of) {
  const auto map = ScaleMap::of(codes, scales, type, hints);
  ASSERT_TRUE(map);
  Index elements = 1;
  for (const Index extent : codes) elements *= extent;
  for (Index i = 0; i < elements; ++i) ASSERT_EQ((*map)(i), scale_of(i)) << i;
}

bool fits(const Shape& codes, const Shape& scales, Dtype type = Dtype::e8m0,
          const ScaleHints& hints = {}) {
  return ScaleMap::of(codes, scales, type, hints).has_value();
}

TEST(ScaleMap, CutsVectorsIntoBlocks) {
  expect_map({80}, {3}, Dtype::e8m0, {}, [](Index i) { return i / 32; });
  expect_map({80}, {80}, Dtype::f32, {}, [](Index i) { return i; });
  expect_map({300}, {3}, Dtype::f32, {}, [](Index i) { return i / 128; });
  expect_map({300}, {1}, Dtype::f32, {}, [](Index) { return 0; });
  expect_map({300}, {}, Dtype::f32, {}, [](Index) { return 0; });
  expect_map({300}, {5}, Dtype::f32, block(1, 64), [](Index i) { return i / 64; });
  EXPECT_FALSE(fits({300}, {5}, Dtype::f32));
}

TEST(ScaleMap, IsNoneOfGroupsWhereScalesSayAnother) {
  EXPECT_FALSE(fits({180, 3}, {4, 3}, Dtype::f32, groups({10, 20, 181}, BlockExtents{128, 1})));
  EXPECT_TRUE(fits({180, 3}, {4, 3}, Dtype::f32, groups({10, 20, 180}, BlockExtents{128, 1})));
  EXPECT_FALSE(fits({180, 3}, {4, 3}, Dtype::f32, groups({130, 170}, BlockExtents{128, 1})));
  EXPECT_FALSE(fits({180, 3}, {3, 2}, Dtype::f32, groups({130, 170}, BlockExtents{128, 1})));
  // By rows of 32 columns, groups change nothing; nor for codes of three axes.
  expect_map({4, 64}, {4, 2}, Dtype::e8m0, groups({2, 3}), [](Index i) { return i / 32; });
  expect_map({4, 64}, {4, 2}, Dtype::f32, groups({2, 3}, BlockExtents{1, 32}),
             [](Index i) { return i / 32; });
  expect_map({2, 2, 3}, {2, 1, 3}, Dtype::f32, groups({1, 2}),
             [](Index i) { return i / 6 * 3 + i % 3; });
}

TEST(ScaleMap, IsNoneWhereAxesDiffer) {
  EXPECT_FALSE(fits({2, 64}, {2, 2, 7}));
  EXPECT_FALSE(fits({2, 64}, {3}));
  EXPECT_FALSE(fits({64, 96}, {64, 2}));
  EXPECT_FALSE(fits({64, 96}, {3, 64}));
  EXPECT_FALSE(fits({200, 320}, {2560}));
  EXPECT_FALSE(fits({2, 3, 64}, {3, 3, 2}));
  EXPECT_FALSE(fits({2, 3, 64}, {3, 2}, Dtype::f32));
  EXPECT_FALSE(fits({2, 0}, {2, 0}));
  EXPECT_FALSE(fits({}, {}));
  ScaleHints packed;
  packed.packed = true;
  EXPECT_TRUE(fits({2, 64}, {2, 2}));
  EXPECT_FALSE(fits({2, 64}, {2, 2}, Dtype::e8m0, packed));
}

TEST(ScaleMap, TakesHintsFromTheCall) {
  Parameters set;
  EXPECT_EQ(scale_hints("quantize", {}, set).block, (BlockExtents{1, 32}));
  EXPECT_FALSE(scale_hints("dispatch", {}, set).block);
  NamedTensors grouped;
  grouped.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {3, 5}));
  EXPECT_EQ(scale_hints("quantize", grouped, set).group_ends, (std::vector<Index>{3, 5}));
  EXPECT_TRUE(scale_hints("quantize", {}, set).group_ends.empty());
  EXPECT_FALSE(scale_hints("quantize", {}, set).turned);
  EXPECT_FALSE(scale_hints("quantize", {}, set).packed);
  set.set("block", "64x1");
  for (const char* op : {"quantize", "swiglu_quantize", "swiglu_quantize_backward"}) {
    EXPECT_EQ(scale_hints(op, {}, set).block, (BlockExtents{64, 1})) << op;
  }
  set.set("transpose", "true");
  EXPECT_EQ(scale_hints("quantize", {}, set).block, (BlockExtents{1, 64}));
  const ScaleHints turned = scale_hints("scaling_aware_transpose", {}, {});
  EXPECT_TRUE(turned.turned);
  EXPECT_EQ(turned.block, kColumnBlock);
  for (const auto& [layout, packed] :
       {std::pair{"row_major", false}, std::pair{"blocked", false}, std::pair{"tiles_8x4", true},
        std::pair{"packed_ue8m0", true}}) {
    Parameters laid;
    laid.set("scale_layout", layout);
    EXPECT_EQ(scale_hints("quantize", {}, laid).packed, packed) << layout;
  }
}

Tensor bytes(std::vector<Index> shape, std::uint8_t all) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [all](Index) { return all; });
}

/// 1, 2, 3, ...
Tensor counted(std::vector<Index> shape) {
  return filled<float>(Dtype::f32, std::move(shape), [](Index i) { return i + 1; });
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
