// Scales of blocks replaced by those of others, on every line and in every group.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "golden/explain/recover/block_map.h"
#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

/// What measure() says of a line whose blocks took those of map(b).
template <typename Map>
Effective took(const Seen& seen, Index group, Index line, Index blocks, const Map& map) {
  const Tensor& scales = *seen.factor().scales;
  Effective e{group, line, {}, {}, 0.0};
  for (Index b = 0; b < blocks; ++b) {
    e.ratio.push_back(scale_value(scales, seen.at(group, line, map(b))) /
                      scale_value(scales, seen.at(group, line, b)));
    e.sigma.push_back(0.0);
  }
  return e;
}

std::vector<Hypothesis> found(const Seen& seen) {
  std::vector<Hypothesis> list;
  add_block_map(seen, list);
  return list;
}

/// `given` with scale i that of place source(i).
template <typename Source>
Tensor with_scales(const Tensor& given, const Source& source) {
  Tensor t = given;
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<float>()[i] = static_cast<float>(scale_value(given, source(i)));
  }
  return t;
}

TEST(BlockMapOperands, RowsOfXAreAltered) {
  const Call call = forward_call({10, 4, 160, {2, 9}});
  const Product p = *product_of(call);
  Seen seen{p, Side::a, {}};
  const auto reversed = [](Index b) { return 4 - b; };
  for (const Index line : {0, 3, 8}) seen.lines.push_back(took(seen, line > 1, line, 5, reversed));
  const std::vector<Hypothesis> list = found(seen);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].phrase, "the scales of x are reversed along K");
  EXPECT_EQ(list[0].name, "x.scales=blocks");
  EXPECT_EQ(list[0].stage, Stage::input);
  EXPECT_TRUE(list[0].local);
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  EXPECT_TRUE(same(altered.input("x.scales"), with_scales(call.input("x.scales"), [](Index i) {
                     return i >= 45 ? i : i / 5 * 5 + 4 - i % 5;  // row 9 is nobody's
                   })));
  EXPECT_TRUE(same(altered.input("w.scales"), call.input("w.scales")));
}

TEST(BlockMapOperands, LinesOfEveryExpertAreAltered) {
  Call call = forward_call({6, 200, 160, {3, 6}});
  call.replace("w.scales", mixed_scales({2, 2, 5}, 4));  // 128 lines share one
  const Product p = *product_of(call);
  Seen seen{p, Side::b, {}};
  const auto before = [](Index b) { return b == 0 ? 0 : b - 1; };
  for (const Index line : {3, 150}) seen.lines.push_back(took(seen, 1, line, 5, before));
  const std::vector<Hypothesis> list = found(seen);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].phrase, "K blocks of w take the scale of the block before");
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  EXPECT_TRUE(same(altered.input("w.scales"), with_scales(call.input("w.scales"), [](Index i) {
                     return i % 5 == 0 ? i : i - 1;
                   })));
}

TEST(BlockMapOperands, EveryLineOfEveryExpertIsAltered) {
  const Call call = forward_call({6, 7, 160, {3, 6}});
  const Product p = *product_of(call);
  Seen seen{p, Side::b, {}};
  const auto reversed = [](Index b) { return 4 - b; };
  for (const Index line : {3, 5}) seen.lines.push_back(took(seen, 1, line, 5, reversed));
  const std::vector<Hypothesis> list = found(seen);
  ASSERT_FALSE(list.empty());
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  EXPECT_TRUE(same(altered.input("w.scales"), with_scales(call.input("w.scales"), [](Index i) {
                     return i / 5 * 5 + 4 - i % 5;
                   })));
}

/// Groups of 300, 0 and 500 rows: 3, 0 and 4 blocks of 128, for 4 columns each.
Call gradient() {
  Call call = gradient_call({4, 4, 800, {300, 300, 800}});
  call.replace("dy.scales", mixed_scales({7, 4}, 2));
  call.replace("x.scales", mixed_scales({7, 4}, 4));
  return call;
}

TEST(BlockMapOperands, GroupsOfGradientsHaveTheirOwnBlocks) {
  const Call call = gradient();
  const Product p = *product_of(call);
  for (const Side side : {Side::a, Side::b}) {
    Seen seen{p, side, {}};
    // After: 0, 1 <- 1, 2 in the first group; 0, 1, 2 <- 1, 2, 3 in the last.
    for (const Index line : {0, 3}) {
      seen.lines.push_back(took(seen, 0, line, 3, [](Index b) { return b < 2 ? b + 1 : b; }));
      seen.lines.push_back(took(seen, 2, line, 4, [](Index b) { return b < 3 ? b + 1 : b; }));
    }
    const std::vector<Hypothesis> list = found(seen);
    ASSERT_FALSE(list.empty());
    EXPECT_EQ(list[0].phrase.substr(0, 12), "K blocks of ");
    Call altered = call;
    ASSERT_TRUE(list[0].alter(altered));
    const std::string name = seen.factor().scales_name;
    EXPECT_TRUE(same(altered.input(name), with_scales(call.input(name), [](Index i) {
                       return i / 4 == 2 || i / 4 == 6 ? i : i + 4;
                     })));
  }
}

TEST(BlockMapOperands, LinesOfFewerBlocksSayNothingOfOthers) {
  const Call call = gradient();
  const Product p = *product_of(call);
  Seen seen{p, Side::a, {}};
  // Block 1 takes the scale of block 3 where there is one.
  for (const Index line : {0, 1, 2}) {
    seen.lines.push_back(took(seen, 2, line, 4, [](Index b) { return b == 1 ? 3 : b; }));
  }
  const std::string words = "K block 1 of dy takes the scale of block 3";
  ASSERT_FALSE(found(seen).empty());
  EXPECT_EQ(found(seen)[0].phrase, words);
  seen.lines.push_back(took(seen, 0, 0, 3, [](Index b) { return b; }));
  ASSERT_FALSE(found(seen).empty());
  EXPECT_EQ(found(seen)[0].phrase, words) << "the first group has no block 3";
  Call altered = call;
  ASSERT_TRUE(found(seen)[0].alter(altered));
  EXPECT_TRUE(same(altered.input("dy.scales"), with_scales(call.input("dy.scales"), [](Index i) {
                     return i / 4 == 4 ? i + 8 : i;
                   })));
}

TEST(BlockMapOperands, BlocksBeyondThoseMeasuredKeepTheirs) {
  const Call call = gradient();
  const Product p = *product_of(call);
  Seen seen{p, Side::b, {}};
  // Of the group of three blocks, 0 and 2 change places: no map of runs.
  for (const Index line : {0, 1, 2}) {
    seen.lines.push_back(took(seen, 0, line, 3, [](Index b) { return b == 2 ? 0 : b; }));
  }
  const std::vector<Hypothesis> list = found(seen);
  ASSERT_FALSE(list.empty());
  Call altered = call;
  for (const Hypothesis& h : list) {
    if (h.phrase != "K block 2 of x takes the scale of block 0") continue;
    ASSERT_TRUE(h.alter(altered));
  }
  EXPECT_TRUE(same(altered.input("x.scales"), with_scales(call.input("x.scales"), [](Index i) {
                     return i / 4 == 2 || i / 4 == 5 ? i - 8 : i;
                   })));
}

TEST(BlockMapOperands, BytesAreTakenToo) {
  Call call = forward_call({4, 4, 160, {4}});
  const Tensor scales = filled<std::uint8_t>(Dtype::u8, {4, 5}, [](Index i) { return 120 + i; });
  call.replace("x.scales", scales);
  const Product p = *product_of(call);
  Seen seen{p, Side::a, {}};
  for (const Index line : {0, 1}) {
    seen.lines.push_back(took(seen, 0, line, 5, [](Index) { return 0; }));
  }
  const std::vector<Hypothesis> list = found(seen);
  ASSERT_FALSE(list.empty());
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  const Tensor wanted =
      filled<std::uint8_t>(Dtype::u8, {4, 5}, [](Index i) { return 120 + i / 5 * 5; });
  EXPECT_TRUE(same(altered.input("x.scales"), wanted));
}

TEST(BlockMapOperands, AreNoneInOtherCalls) {
  const Call call = forward_call({4, 4, 160, {4}});
  const Product p = *product_of(call);
  Seen seen{p, Side::a, {}};
  for (const Index line : {0, 1}) {
    seen.lines.push_back(took(seen, 0, line, 5, [](Index) { return 0; }));
  }
  Call other = call;
  other.op = "quantize";
  ASSERT_FALSE(found(seen).empty());
  EXPECT_FALSE(found(seen)[0].alter(other));
}

}  // namespace
}  // namespace mxo
