// Which scales a dequantised tensor was multiplied by, by the hypotheses that its blocks show.
#include "tests/golden/dequantised.h"

#include <algorithm>
#include <array>

namespace mxo {
namespace {

/// Of scales for every 4 of `rows` x `columns` of them.
std::string taken(Index rows, Index columns,
                  const std::function<double(const Scales&, Index, Index)>& take) {
  const Scales given = irregular(rows, columns);
  Dequantised c(given, rows, columns * 4);
  c.fill(c.actual, [&](Index row, Index column) { return take(given, row, column); });
  return c.words();
}

TEST(DequantisedBlocks, ShowWhatBecameOfTheirScales) {
  const auto of = [](double (*value)(double)) {
    return taken(
        2, 4, [=](const Scales& s, Index r, Index c) { return value(Dequantised::at(s, r, c)); });
  };
  EXPECT_EQ(of([](double) { return 1.0; }), "scales=left_out: the scales are left out");
  EXPECT_EQ(of([](double v) { return v / 2; }),
            "scales=halved: every scale is half of what it is (a byte too low by one)");
  EXPECT_EQ(of([](double v) { return v * 2; }),
            "scales=doubled: every scale is twice what it is (a byte too high by one)");
  EXPECT_EQ(of([](double v) { return v * 3; }), "none");
  EXPECT_EQ(of([](double v) { return v; }), "none");
  // A number whose square and inverse are floats.
  const auto exact = [](double (*value)(double)) {
    Dequantised c({{4, 0.25, 8, 32}}, 1, 16);
    c.fill(c.actual, [&](Index, Index k) {
      return value(std::array{4.0, 0.25, 8.0, 32.0}[static_cast<std::size_t>(k)]);
    });
    return c.words();
  };
  EXPECT_EQ(exact([](double v) { return v * v; }), "scales=twice: the scales are applied twice");
  EXPECT_EQ(exact([](double v) { return 1 / v; }), "scales=inverse: x is divided by the scales");
}

TEST(DequantisedBlocks, ShowAnotherBlockOfTheirRow) {
  const auto of = [](Index columns, const std::function<Index(Index)>& from) {
    return taken(2, columns,
                 [&](const Scales& s, Index r, Index c) { return Dequantised::at(s, r, from(c)); });
  };
  const std::string first =
      "scales=first_block: every block takes the scale of the first of its row";
  EXPECT_EQ(of(5, [](Index) { return 0; }), first);
  EXPECT_EQ(taken(4, 2, [](const Scales& s, Index r, Index) { return Dequantised::at(s, r, 0); }),
            first)
      << "one column of two is half";
  for (const Index every : {2, 4, 8, 16}) {
    EXPECT_EQ(of(every + 3, [=](Index c) { return c / every * every; }),
              "scales=first_of_every: every " + std::to_string(every) +
                  " blocks take the scale of the first of them");
  }
  EXPECT_EQ(of(9, [](Index c) { return c / 3 * 3; }), "none");
}

TEST(DequantisedBlocks, ShowAnotherRow) {
  const auto of = [](Index rows, Index columns, Index by_row, Index by_column) {
    return taken(rows, columns, [=](const Scales& s, Index r, Index c) {
      return Dequantised::at(s, (r + by_row + rows) % rows, (c + by_column + columns) % columns);
    });
  };
  EXPECT_EQ(taken(4, 3, [](const Scales& s, Index, Index c) { return Dequantised::at(s, 0, c); }),
            "scales=first_row: every row takes the scales of row 0");
  EXPECT_EQ(taken(2, 8, [](const Scales& s, Index, Index c) { return Dequantised::at(s, 0, c); }),
            "scales=first_row: every row takes the scales of row 0");
  const std::string those = "scales=source: the scales are those of ";
  EXPECT_EQ(of(5, 3, -1, 0), those + "1 row before");
  EXPECT_EQ(of(5, 3, 1, 0), those + "1 row after");
  EXPECT_EQ(of(5, 3, 2, 0), those + "2 rows after");
  EXPECT_EQ(of(6, 3, 3, 0), those + "3 rows after") << "or before";
  EXPECT_EQ(of(6, 3, -2, 0), those + "2 rows before");
  EXPECT_EQ(of(5, 3, -2, 0), those + "2 rows before");
  EXPECT_EQ(of(5, 3, 0, 1), those + "1 block after");
  EXPECT_EQ(of(3, 5, 0, -2), those + "2 blocks before");
  EXPECT_EQ(of(3, 6, 0, 3), those + "3 blocks after") << "or before";
  EXPECT_EQ(of(3, 6, 0, -2), those + "2 blocks before");
  EXPECT_EQ(of(4, 4, -1, 2), those + "1 row before and 2 blocks after");
}

/// Rows that come again: the move is the least, and the one before of two.
TEST(DequantisedBlocks, ShowTheNearestOfEqualScales) {
  Scales given = irregular(8, 3);
  const auto before = [&](Index every) {
    for (std::size_t r = 0; r < 8; ++r) given[r] = given[r % static_cast<std::size_t>(every)];
    Dequantised c(given, 8, 12);
    c.fill(c.actual, [&](Index r, Index k) { return Dequantised::at(given, (r + 7) % 8, k); });
    return c.words();
  };
  EXPECT_EQ(before(4), "scales=source: the scales are those of 1 row before") << "of 3 after";
  EXPECT_EQ(before(2), "scales=source: the scales are those of 1 row before") << "of 1 after";
  given = irregular(5, 3);
  for (auto& row : given) row[1] = row[2] = row[0];
  Dequantised c(given, 5, 12);
  c.fill(c.actual, [&](Index r, Index k) { return Dequantised::at(given, (r + 1) % 5, k); });
  EXPECT_EQ(c.words(), "scales=source: the scales are those of 1 row after") << "of any column";
}

TEST(DequantisedBlocks, ShowTheScaleBesideTheirsInMemory) {
  const auto of = [](Index rows, Index by) {
    return taken(rows, 4, [=](const Scales& s, Index r, Index c) {
      const Index at = std::clamp<Index>(r * 4 + c + by, 0, rows * 4 - 1);
      return Dequantised::at(s, at / 4, at % 4);
    });
  };
  const std::string lies = "scales=source: blocks take the scale that lies one ";
  EXPECT_EQ(of(5, -1), lies + "before theirs in memory");
  EXPECT_EQ(of(5, 1), lies + "after theirs in memory");
}

TEST(DequantisedBlocks, NameTheSourcesOfAFewColumns) {
  const auto of = [](Index rows, std::vector<Index> sources) {
    return taken(rows, 12, [sources](const Scales& s, Index r, Index c) {
      const auto at = static_cast<std::size_t>(c);
      return Dequantised::at(s, r, at < sources.size() ? sources[at] : c);
    });
  };
  const std::vector<Index> four{0, 10, 2, 0, 4, 8, 6, 2};
  const std::string words =
      "scales=source: block 1 takes the scale of block 10, block 3 takes the scale of block 0, "
      "block 5 takes the scale of block 8, block 7 takes the scale of block 2, in scale columns 1, "
      "3, 5 and 7";
  EXPECT_EQ(of(8, four), words);
  EXPECT_EQ(of(7, four), "none") << "seven rows may be chance";
  EXPECT_EQ(of(8, {0, 10, 2, 0, 4, 8, 6, 2, 8, 3}), "none") << "five columns";
}

TEST(DequantisedBlocks, TakeTheFirstColumnThatFits) {
  Scales given = irregular(9, 12);
  const auto words = [&](const From& from) {
    Dequantised c(given, 9, 48);
    c.fill(c.actual, [&](Index r, Index k) {
      return r < 8 && (k == 1 || k == 3) ? from(r, k) : Dequantised::at(given, r, k);
    });
    return c.words();
  };
  EXPECT_EQ(words([&](Index r, Index) { return Dequantised::at(given, r + 1, 0); }), "none")
      << "the next row is no column";
  for (auto& row : given) row[7] = row[0];
  EXPECT_EQ(words([&](Index r, Index k) { return Dequantised::at(given, r, k == 1 ? 0 : 10); }),
            "scales=source: block 1 takes the scale of block 0, block 3 takes the scale of block "
            "10, in scale columns 1 and 3");
}

TEST(DequantisedBlocks, AreSaidWhereSomeDiffer) {
  const auto of = [](Index rows, Index columns) {
    return taken(8, 8, [=](const Scales& s, Index r, Index c) {
      return Dequantised::at(s, r, c) * (r < rows && c < columns ? 2.0 : 1.0);
    });
  };
  const std::string doubled =
      "scales=doubled: every scale is twice what it is (a byte too high by one)";
  EXPECT_EQ(of(8, 8), doubled);
  EXPECT_EQ(of(4, 4), doubled + ", in scale columns 0 to 3 of scale rows 0 to 3");
  EXPECT_EQ(of(8, 3), doubled + ", in scale columns 0 to 2");
  EXPECT_EQ(of(3, 8), doubled + ", in scale rows 0 to 2");
  EXPECT_EQ(of(3, 2), doubled + ", in scale columns 0 to 1 of scale rows 0 to 2");
  EXPECT_EQ(of(1, 4), doubled + ", in scale columns 0 to 3 of scale row 0") << "four blocks";
  EXPECT_EQ(of(1, 3), "none") << "three blocks tell nothing";
}

}  // namespace
}  // namespace mxo
