// Where the scale of a code lies, by shapes, groups and layouts, and where there is none.
#include <gtest/gtest.h>

#include <functional>

#include "golden/judge/product_factor.h"
#include "golden/judge/scale_map.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::scale_map_test {
namespace {

using Shape = std::vector<Index>;

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

TEST(ScaleMap, OfPackedLayoutsIsTakenFromTheCall) {
  EXPECT_FALSE(scale_hints("dispatch", {}, {}).block);
  for (const auto& [layout, packed] :
       {std::pair{"row_major", false}, std::pair{"blocked", false}, std::pair{"tiles_8x4", true},
        std::pair{"packed_ue8m0", true}}) {
    Parameters laid;
    laid.set("scale_layout", layout);
    EXPECT_EQ(scale_hints("quantize", {}, laid).packed, packed) << layout;
  }
}

TEST(ProductFactor, IsNoneForScalesThatDoNotFit) {
  const auto fits = [](std::vector<Index> codes, std::vector<Index> scales, const char* block) {
    NamedTensors in{{"x.codes", filled<std::uint8_t>(Dtype::u8, codes, [](Index) { return 0x38; })},
                    {"x.scales", filled<float>(Dtype::f32, scales, [](Index i) { return i + 1; })}};
    Parameters set;
    set.set("block_x", block);
    return factor_of_rows(in, "x", set).has_value();
  };
  EXPECT_TRUE(fits({130, 300}, {130, 3}, "1x128"));
  EXPECT_FALSE(fits({130, 300}, {130, 2}, ""));
  EXPECT_FALSE(fits({130, 300}, {3, 3}, ""));
  EXPECT_FALSE(fits({130, 300}, {1, 1}, ""));
  EXPECT_FALSE(fits({2, 130, 300}, {2}, ""));
  EXPECT_FALSE(fits({130, 300}, {130, 3}, "1x100"));
}

}  // namespace
}  // namespace mxo::scale_map_test
