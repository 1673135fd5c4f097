// Which block's scale each block along the depth was multiplied by, from measured lines.
#include "golden/explain/recover/block_map.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

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
  Seen seen;
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

TEST(BlockMap, OfOneSourceIsStuck) {
  EXPECT_EQ(of_map(8, [](Index) { return 0; }), "every K block of f takes the scale of block 0");
  EXPECT_EQ(of_map(8, [](Index b) { return b < 3 ? b : 3; }),
            "scales of f are stuck at block 3 from block 4 on");
  EXPECT_EQ(of_map(8, [](Index b) { return b < 6 ? b : 6; }),
            "scales of f are stuck at block 6 from block 7 on");
  EXPECT_EQ(of_map(8, [](Index b) { return b < 2 ? 2 : b; }),
            "blocks 0 to 1 of f take the scale of block 2");
  EXPECT_EQ(of_map(8, [](Index b) { return b < 1 ? 1 : b; }),
            "blocks 0 to 0 of f take the scale of block 1");
  EXPECT_EQ(of_map(8, [](Index) { return 7; }), "blocks 0 to 6 of f take the scale of block 7");
  EXPECT_EQ(of_map(2, [](Index) { return 0; }), "every K block of f takes the scale of block 0");
  EXPECT_EQ(of_map(2, [](Index) { return 1; }), "blocks 0 to 0 of f take the scale of block 1");
}

TEST(BlockMap, OfOneDistanceIsBeforeOrAfter) {
  const std::string words = "K blocks of f take the scale of the block ";
  EXPECT_EQ(of_map(8, [](Index b) { return b - 1; }), words + "before");
  EXPECT_EQ(of_map(8, [](Index b) { return b + 1; }), words + "after");
  EXPECT_EQ(of_map(8, [](Index b) { return b - 2; }), words + "2 before");
  EXPECT_EQ(of_map(8, [](Index b) { return b + 2; }), words + "2 after");
  EXPECT_EQ(of_map(8, [](Index b) { return b - 4; }), words + "4 before");
  EXPECT_EQ(of_map(8, [](Index b) { return b + 4; }), words + "4 after");
}

TEST(BlockMap, OfRunsIsNamed) {
  const auto f = [](const std::string& before, const std::string& after) {
    return before + " K blocks of f " + after;
  };
  const std::string first = "take the scale of their first", last = "take the scale of their last";
  EXPECT_EQ(of_map(9, [](Index b) { return b & ~1; }), f("every 2", first));
  EXPECT_EQ(of_map(9, [](Index b) { return b & ~3; }), f("every 4", first));
  EXPECT_EQ(of_map(9, [](Index b) { return b & ~7; }), f("every 8", first));
  EXPECT_EQ(of_map(9, [](Index b) { return b | 1; }), f("every 2", last));
  EXPECT_EQ(of_map(9, [](Index b) { return b | 3; }), f("every 4", last));
  EXPECT_EQ(of_map(9, [](Index b) { return b & 1; }),
            "the scales of f start again every 2 K blocks");
  EXPECT_EQ(of_map(9, [](Index b) { return b & 3; }),
            "the scales of f start again every 4 K blocks");
  EXPECT_EQ(of_map(9, [](Index b) { return b ^ 1; }), f("the scales of every 2", "are reversed"));
  EXPECT_EQ(of_map(9, [](Index b) { return b ^ 3; }), f("the scales of every 4", "are reversed"));
  EXPECT_EQ(of_map(9, [](Index b) { return b ^ 2; }),
            f("the halves of the scales of every 4", "are exchanged"));
  EXPECT_EQ(of_map(9, [](Index b) { return b ^ 4; }),
            f("the halves of the scales of every 8", "are exchanged"));
}

TEST(BlockMap, OfAnotherStrideIsNamed) {
  EXPECT_EQ(of_map(9, [](Index b) { return b / 2; }),
            "block b of f takes the scale of block b / 2");
  EXPECT_EQ(of_map(9, [](Index b) { return b / 4; }),
            "block b of f takes the scale of block b / 4");
  EXPECT_EQ(of_map(9, [](Index b) { return 2 * b; }), "block b of f takes the scale of block 2 b");
  EXPECT_EQ(of_map(9, [](Index b) { return 4 * b; }), "block b of f takes the scale of block 4 b");
}

TEST(BlockMap, OfTheWholeDepthIsNamed) {
  EXPECT_EQ(of_map(7, [](Index b) { return 6 - b; }), "the scales of f are reversed along K");
  EXPECT_EQ(of_map(8, [](Index b) { return 7 - b; }), "the scales of f are reversed along K");
  EXPECT_EQ(of_map(7, [](Index b) { return b == 0 ? 6 : b - 1; }),
            "the scales of f are rolled by one block along K");
  EXPECT_EQ(of_map(7, [](Index b) { return b == 6 ? 0 : b + 1; }),
            "the scales of f are rolled back by one block along K");
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

TEST(BlockMap, ComesAgainInEveryScaleThatIsKnown) {
  Rows x(10, 8);
  for (Index r = 0; r < 10; ++r) x.took(r, [](Index b) { return from_list({2, 0, 3, 1}, b); });
  EXPECT_EQ(x.first(),
            "the scales of the K blocks of f are taken in runs of 4 in the order 2, 0, "
            "3, 1");
  x.seen.lines[1].ratio[6] = 9.0;
  EXPECT_EQ(x.first(), "none");
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

TEST(BlockMap, NeedsThreeScalesAndNineOfTen) {
  const Map last = [](Index b) { return b == 6 ? 5 : b; };
  EXPECT_EQ(of_map(7, last, 2), "none");
  EXPECT_EQ(of_map(7, last, 3), "scales of f are stuck at block 5 from block 6 on");
  const auto wrong_once = [&](Index rows) {
    Rows x(rows, 7);
    for (Index r = 0; r < rows; ++r) x.took(r, last);
    x.seen.lines[1].ratio[3] = 4.0;
    return x.first();
  };
  EXPECT_EQ(wrong_once(9), "none");
  EXPECT_EQ(wrong_once(10), "scales of f are stuck at block 5 from block 6 on");
}

TEST(BlockMap, ListsFourAtMost) {
  // Of block 1 alone is known that it took the scale of block 0.
  Rows x(3, 8);
  for (Index r = 0; r < 3; ++r) {
    Effective& e = x.took(r, [](Index) { return 0; });
    for (std::size_t b = 0; b < 8; ++b) e.sigma[b] = b == 1 ? 0.0 : kUnknown;
  }
  EXPECT_EQ(x.found(), (Words{"every K block of f takes the scale of block 0",
                              "K blocks of f take the scale of the block before",
                              "every 2 K blocks of f take the scale of their first",
                              "the scales of every 2 K blocks of f are reversed"}));
}

TEST(BlockMap, IsListedInEveryWayThatFits) {
  Rows x(4, 8);
  for (Index r = 0; r < 4; ++r) x.took(r, [](Index) { return 0; });
  const std::string from_0 = " of f takes the scale of block 0";
  EXPECT_EQ(
      x.found(),
      (Words{"every K block" + from_0,
             "the scales of the K blocks of f are taken in runs of 8 in the order 0, 0, 0, 0, "
             "0, 0, 0, 0 (the first of each run for all of it)",
             "K block 1" + from_0 + ", K block 2" + from_0 + ", K block 3" + from_0 +
                 ", K block 4" + from_0 + " and 3 more take others'"}));
}

TEST(BlockMap, IsNotTheIdentity) {
  EXPECT_EQ(of_map(6, [](Index b) { return b; }), "none");
  EXPECT_EQ(of_map(1, [](Index b) { return b; }), "none");
  EXPECT_EQ(Rows(4, 6).first(), "none") << "nothing was measured";
}

}  // namespace
}  // namespace mxo
