// Where the scale of each code lies, written out for every shape that scales have.
#include "golden/judge/scale_map.h"

#include <functional>

#include <gtest/gtest.h>

#include "formats/scale_layout.h"
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

}  // namespace
}  // namespace mxo
