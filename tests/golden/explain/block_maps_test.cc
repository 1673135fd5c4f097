// Which block's scale each block along the depth was multiplied by, from measured lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/product/measured.h"
#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Map = std::function<Index(Index)>;

constexpr double kUnknown = 1e300;

/// Rows of f [rows, 32 blocks], and what was measured of them.
struct Rows {
  Tensor scales;
  Product p;
  Observation seen;
  Rows(Index rows, Index blocks) : Rows(mixed_scales({rows, blocks}, 9)) {}
  explicit Rows(Tensor given) : scales(std::move(given)), seen{p, Side::a, {}} {
    p.a.name = "f";
    p.a.scales = &scales;
    p.a.scales_name = "f.scales";
    p.a_lines = scales.extent(0);
    p.k = 32 * scales.extent(1);
    p.ends = {p.a_lines};
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  double given(Index row, Index block) const {
    return scale_value(scales, row * scales.extent(1) + block);
  }
  /// A row of which each block took the scale of block map(b), or its own where there is none.
  Effective& took(Index row, const Map& map) {
    Effective e{0, row, {}, {}, 0.0};
    for (Index b = 0; b < scales.extent(1); ++b) {
      const Index from = map(b);
      const bool own = from < 0 || from >= scales.extent(1);
      e.ratio.push_back(given(row, own ? b : from) / given(row, b));
      e.sigma.push_back(0.0);
    }
    seen.lines.push_back(e);
    return seen.lines.back();
  }
  Words found() const {
    std::vector<Hypothesis> list;
    add_block_map(seen, list);
    Words words;
    for (const Hypothesis& h : list) words.push_back(h.phrase);
    return words;
  }
  std::string first() const {
    const Words all = found();
    return all.empty() ? "none" : all.front();
  }
};

std::string of_map(Index blocks, const Map& map, Index rows = 4) {
  Rows x(rows, blocks);
  for (Index row = 0; row < rows; ++row) x.took(row, map);
  return x.first();
}

TEST(BlockMap, IsNamed) {
  struct Row {
    Index blocks;
    Map map;
    const char* words;
  };
  for (const Row& row : {
           Row{6, [](Index b) { return b; }, "none"},
           Row{1, [](Index b) { return b; }, "none"},
           Row{8, [](Index) { return 0; }, "every K block of f takes the scale of block 0"},
           Row{8, [](Index b) { return std::min<Index>(b, 3); },
               "scales of f are stuck at block 3 from block 4 on"},
           Row{8, [](Index b) { return std::max<Index>(b, 2); },
               "blocks 0 to 1 of f take the scale of block 2"},
           Row{2, [](Index) { return 1; }, "blocks 0 to 0 of f take the scale of block 1"},
           Row{8, [](Index b) { return b - 1; },
               "K blocks of f take the scale of the block before"},
           Row{8, [](Index b) { return b + 4; },
               "K blocks of f take the scale of the block 4 after"},
           Row{9, [](Index b) { return b & ~1; },
               "every 2 K blocks of f take the scale of their first"},
           Row{9, [](Index b) { return b | 3; },
               "every 4 K blocks of f take the scale of their last"},
           Row{9, [](Index b) { return b & 3; }, "the scales of f start again every 4 K blocks"},
           Row{9, [](Index b) { return b ^ 3; },
               "the scales of every 4 K blocks of f are reversed"},
           Row{9, [](Index b) { return b ^ 4; },
               "the halves of the scales of every 8 K blocks of f are exchanged"},
           Row{9, [](Index b) { return b / 2; }, "block b of f takes the scale of block b / 2"},
           Row{9, [](Index b) { return 4 * b; }, "block b of f takes the scale of block 4 b"},
           Row{7, [](Index b) { return 6 - b; }, "the scales of f are reversed along K"},
           Row{7, [](Index b) { return (b + 6) % 7; },
               "the scales of f are rolled by one block along K"},
           Row{7, [](Index b) { return (b + 1) % 7; },
               "the scales of f are rolled back by one block along K"},
       }) {
    EXPECT_EQ(of_map(row.blocks, row.map), row.words);
  }
}

Index from_list(const std::vector<Index>& list, Index b) {
  const auto n = static_cast<Index>(list.size());
  return b / n * n + list[static_cast<std::size_t>(b % n)];
}

TEST(BlockMap, ComesAgainEveryFew) {
  const auto order = [](std::vector<Index> list) {
    return [list](Index b) { return from_list(list, b); };
  };
  const std::string taken = "the scales of the K blocks of f are taken in runs of ";
  EXPECT_EQ(of_map(8, order({2, 0, 3, 1})), taken + "4 in the order 2, 0, 3, 1");
  EXPECT_EQ(of_map(11, order({2, 0, 3, 1})), taken + "4 in the order 2, 0, 3, 1")
      << "of the last run nobody knows";
  EXPECT_EQ(of_map(8, order({0, 4, 1, 5, 2, 6, 3, 7})),
            taken + "8 in the order 0, 4, 1, 5, 2, 6, 3, 7 (2 x 4 transposed)")
      << "once, but it has a name";
  EXPECT_EQ(of_map(7, order({2, 0, 3, 1})).substr(0, 20), "K block 0 of f takes") << "once";
  EXPECT_EQ(of_map(3, order({0, 2, 1})),
            "K block 1 of f takes the scale of block 2, K block 2 of f takes the scale of block 1")
      << "no run of four";
}

TEST(BlockMap, NamesFourBlocksOneByOne) {
  const auto order = [](std::vector<Index> list) {
    return [list](Index b) { return list[static_cast<std::size_t>(b)]; };
  };
  const auto block = [](int b, int from) {
    return "K block " + std::to_string(b) + " of f takes the scale of block " +
           std::to_string(from);
  };
  EXPECT_EQ(of_map(7, order({0, 1, 2, 3, 4, 2, 6})), block(5, 2));
  EXPECT_EQ(of_map(7, order({5, 1, 2, 6, 4, 0, 3})),
            block(0, 5) + ", " + block(3, 6) + ", " + block(5, 0) + ", " + block(6, 3));
  EXPECT_EQ(of_map(7, order({5, 1, 4, 6, 2, 0, 3})), block(0, 5) + ", " + block(2, 4) + ", " +
                                                         block(3, 6) + ", " + block(4, 2) +
                                                         " and 2 more take others'");
}

TEST(BlockMap, NamesBlocksOfOneSourceAlone) {
  // Blocks 1 and 2 have the same scales on every row.
  Tensor scales = mixed_scales({4, 5}, 9);
  for (Index r = 0; r < 4; ++r) scales.as<float>()[5 * r + 2] = scales.as<float>()[5 * r + 1];
  Rows twins(scales);
  for (Index r = 0; r < 4; ++r) twins.took(r, [](Index b) { return b == 4 ? 2 : b; });
  EXPECT_EQ(twins.first(), "none") << "1 or 2";
  twins.scales.as<float>()[7] *= 1.5f;
  EXPECT_EQ(twins.first(), "K block 4 of f takes the scale of block 1") << "by row 1";
  Rows one(4, 5);
  for (Index r = 0; r < 4; ++r) one.took(r, [](Index b) { return b == 4 ? 2 : b; });
  EXPECT_EQ(one.first(), "K block 4 of f takes the scale of block 2");
  Rows none(4, 5);
  for (Index r = 0; r < 4; ++r) none.took(r, [](Index b) { return b; }).ratio[4] = 1.7;
  EXPECT_EQ(none.first(), "none") << "no block has these";
}

TEST(BlockMap, LeavesOutBlocksThatNobodyKnows) {
  const Map reversed = [](Index b) { return 6 - b; };
  Rows x(4, 7);
  for (Index r = 0; r < 4; ++r) {
    Effective& e = x.took(r, reversed);
    e.ratio[2] = 9.0;
    e.sigma[2] = kUnknown;
  }
  EXPECT_EQ(x.first(), "the scales of f are reversed along K");
  Rows swapped(4, 5);
  for (Index r = 0; r < 4; ++r) {
    Effective& e = swapped.took(r, [](Index b) { return b == 1 ? 4 : b; });
    if (r < 2) e.sigma[1] = kUnknown;
  }
  EXPECT_EQ(swapped.first(), "none") << "two scales are too few";
}

/// What measure() says of a line whose blocks took those of map(b).
template <typename Map>
Effective took(const Observation& seen, Index group, Index line, Index blocks, const Map& map) {
  const Tensor& scales = *seen.factor().scales;
  Effective e{group, line, {}, {}, 0.0};
  for (Index b = 0; b < blocks; ++b) {
    e.ratio.push_back(scale_value(scales, seen.at(group, line, map(b))) /
                      scale_value(scales, seen.at(group, line, b)));
    e.sigma.push_back(0.0);
  }
  return e;
}

std::vector<Hypothesis> found(const Observation& seen) {
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

TEST(BlockMap, RowsOfXAreAltered) {
  const Call call = forward_call({10, 4, 160, {2, 9}});
  const Product p = *product_of(call);
  Observation seen{p, Side::a, {}};
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

TEST(BlockMap, LinesOfEveryExpertAreAltered) {
  Call call = forward_call({6, 200, 160, {3, 6}});
  call.replace("w.scales", mixed_scales({2, 2, 5}, 4));  // 128 lines share one
  const Product p = *product_of(call);
  Observation seen{p, Side::b, {}};
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

/// Groups of 300, 0 and 500 rows: 3, 0 and 4 blocks of 128, for 4 columns each.
Call gradient() {
  Call call = gradient_call({4, 4, 800, {300, 300, 800}});
  call.replace("dy.scales", mixed_scales({7, 4}, 2));
  call.replace("x.scales", mixed_scales({7, 4}, 4));
  return call;
}

TEST(BlockMap, GroupsOfGradientsHaveTheirOwnBlocks) {
  const Call call = gradient();
  const Product p = *product_of(call);
  for (const Side side : {Side::a, Side::b}) {
    Observation seen{p, side, {}};
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

TEST(BlockMap, LinesOfFewerBlocksSayNothingOfOthers) {
  const Call call = gradient();
  const Product p = *product_of(call);
  Observation seen{p, Side::a, {}};
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

TEST(BlockMap, BlocksBeyondThoseMeasuredKeepTheirs) {
  const Call call = gradient();
  const Product p = *product_of(call);
  Observation seen{p, Side::b, {}};
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

}  // namespace
}  // namespace mxo
