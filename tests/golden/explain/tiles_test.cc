// Tiles of an output that are transposed: written, or read, column-major.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/transposed_tiles.h"

namespace mxo {
namespace {

TEST(Tiles, OneIsNamedByItsPlace) {
  const Tensor owed = counted({16, 16});
  Came c(owed, all_written(owed, {{8, 4, 4, 4}}));
  const auto claims = recover_tiles(c.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "order.tiles_transposed");
  EXPECT_EQ(claims[0].sentence,
            "a tile of 4 x 4 is transposed, in columns 4 to 7 of rows 8 to 11 "
            "of y");
  EXPECT_EQ(claims[0].where.rows, "8-11");
  EXPECT_EQ(claims[0].where.columns, "4-7");
  EXPECT_EQ(claims[0].elements, 12);
  EXPECT_EQ(c.output.left, 0);
}

TEST(Tiles, AreWrittenOrReadColumnMajor) {
  const Tensor owed = counted({16, 16});
  const TileAt wide{4, 8, 4, 8};
  const TileAt tall{8, 12, 8, 4};
  EXPECT_EQ(tiles_said(owed, written_tile(owed, wide, owed)),
            "a tile of 4 x 8 is written column-major, in columns 8 to 15 of rows 4 to 7 of y");
  EXPECT_EQ(tiles_said(owed, read_tile(owed, wide, owed)),
            "a tile of 4 x 8 is read column-major, in columns 8 to 15 of rows 4 to 7 of y");
  EXPECT_EQ(tiles_said(owed, written_tile(owed, tall, owed)),
            "a tile of 8 x 4 is written column-major, in columns 12 to 15 of rows 8 to 15 of y");
  EXPECT_EQ(tiles_said(owed, read_tile(owed, tall, owed)),
            "a tile of 8 x 4 is read column-major, in columns 12 to 15 of rows 8 to 15 of y");
}

TEST(Tiles, AreNamedTogether) {
  const Tensor owed = counted({8, 12});
  Came c(owed, all_written(owed, {{0, 0, 4, 4}, {0, 8, 4, 4}, {4, 0, 4, 4}, {4, 8, 4, 4}}));
  const auto claims = recover_tiles(c.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence,
            "tiles of 4 x 4 are transposed, in columns 0 to 3 and 8 to 11 of y");
  EXPECT_EQ(claims[0].elements, 48);
  EXPECT_EQ(c.output.left, 0);
}

TEST(Tiles, AreTheOnesThatFit) {
  const Tensor owed = counted({12, 12});
  Tensor came = all_written(owed, {{0, 0, 4, 4}, {4, 4, 4, 4}, {4, 8, 4, 4}, {8, 0, 4, 4}});
  came.as<std::int32_t>()[7 * 12 + 7] = 1000;   // the last of the second tile
  came.as<std::int32_t>()[8 * 12 + 8] = 1000;   // below the third, in its first column
  came.as<std::int32_t>()[11 * 12 + 4] = 1000;  // beside the last
  Came c(owed, came);
  const auto claims = recover_tiles(c.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 36);
  EXPECT_EQ(claims[0].sentence,
            "tiles of 4 x 4 are transposed, in columns 0 to 3 and 8 to 11 of y");
  EXPECT_EQ(c.output.left, 12 + 1 + 2) << "one tile and what is below and beside";
}

/// What another cause explains is in no tile, and what is settled is not settled again.
TEST(Tiles, HoldNothingThatIsExplained) {
  const Tensor owed = counted({16, 16});
  Came c(owed, all_written(owed, {{8, 4, 4, 4}}));
  c.output.settle(9 * 16 + 4);
  EXPECT_EQ(tiles_said(c), "");
  EXPECT_EQ(c.output.left, 11);
}

TEST(Tiles, MayBeginAnywhereIfOneHoldsAll) {
  const Tensor owed = counted({9, 11});
  for (const TileAt& t : {TileAt{2, 3, 3, 5}, TileAt{1, 5, 5, 3}, TileAt{4, 6, 5, 5}}) {
    const std::string shape = std::to_string(t.height) + " x " + std::to_string(t.width);
    const std::string where = ", in columns " + std::to_string(t.column) + " to " +
                              std::to_string(t.column + t.width - 1) + " of rows " +
                              std::to_string(t.row) + " to " +
                              std::to_string(t.row + t.height - 1) + " of y";
    const bool square = t.height == t.width;
    // Of the corners of a tile only two move, so that rows and columns are all of it.
    EXPECT_EQ(
        tiles_said(owed, written_tile(owed, t, owed)),
        "a tile of " + shape + " is " + (square ? "transposed" : "written column-major") + where);
    EXPECT_EQ(
        tiles_said(owed, read_tile(owed, t, owed)),
        "a tile of " + shape + " is " + (square ? "transposed" : "read column-major") + where);
    Came counts(owed, written_tile(owed, t, owed));
    const auto claims = recover_tiles(counts.output);
    ASSERT_EQ(claims.size(), 1u);
    EXPECT_EQ(claims[0].elements, static_cast<double>(counts.output.differing));
  }
  EXPECT_EQ(tiles_said(owed, all_written(owed, {{0, 0, 3, 5}, {4, 5, 3, 5}})), "") << "two of them";
}

/// The first element of a tile stays where it is; that of the output is in no tile here.
TEST(Tiles, HoldNoFirstElementThatIsWrong) {
  const Tensor owed = counted({16, 16});
  Tensor corner = all_written(owed, {{8, 4, 4, 4}});
  corner.as<std::int32_t>()[8 * 16 + 4] = 1000;
  EXPECT_EQ(tiles_said(owed, corner), "");
  Tensor first = all_written(owed, {{2, 3, 3, 5}});
  first.as<std::int32_t>()[0] = 1000;
  EXPECT_EQ(tiles_said(owed, first), "") << "one does not hold all";
}

TEST(Tiles, OfOneRowOrColumnAreNone) {
  const Tensor owed = counted({9, 9});
  Tensor row = owed;
  Tensor column = owed;
  for (Index i = 0; i < 9; ++i) {
    row.as<std::int32_t>()[72 + i] = 80 - static_cast<std::int32_t>(i);
    column.as<std::int32_t>()[9 * i + 8] = 1000 + static_cast<std::int32_t>(i);
  }
  EXPECT_EQ(tiles_said(owed, row), "");
  EXPECT_EQ(tiles_said(owed, column), "");
}

/// Rows and columns 0 and 1 of a tile are zeros: what is left of it is a tile as well.
TEST(Tiles, OfEqualOnesTheUsualIsNamed) {
  Tensor owed = counted({16, 8});
  for (Index i = 8; i < 16; ++i) {
    for (Index j = 0; j < 8; ++j) {
      if (i < 10 || j < 2) owed.as<std::int32_t>()[8 * i + j] = 0;
    }
  }
  EXPECT_EQ(tiles_said(owed, all_written(owed, {{8, 0, 8, 8}})),
            "a tile of 8 x 8 is transposed, in columns 2 to 7 of rows 10 to 15 of y");
}

/// A tile of zeros fits, transposed or not.
TEST(Tiles, InWhichNothingDiffersDoNotCount) {
  Tensor owed(Dtype::i32, {8, 16});
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 4; j < 8; ++j) {
      owed.as<std::int32_t>()[16 * i + j] = static_cast<std::int32_t>(1 + 4 * i + j);
    }
  }
  EXPECT_EQ(tiles_said(owed, all_written(owed, {{0, 4, 4, 4}})),
            "a tile of 4 x 4 is transposed, in columns 4 to 7 of rows 0 to 3 of y");
}

TEST(Tiles, HoldFourElementsAndEightTogether) {
  // Each tile moves as many elements as its numbers: above and below its diagonal.
  const auto of = [](std::initializer_list<std::int32_t> upper) {
    Tensor t(Dtype::i32, {4, 4});
    Index j = 1;
    for (const std::int32_t v : upper) t.as<std::int32_t>()[j++] = v;
    return t;
  };
  const auto beside = [](const std::vector<Tensor>& tiles) {
    Tensor t(Dtype::i32, {4, 4 * static_cast<Index>(tiles.size())});
    const Index columns = t.extent(1);
    for (std::size_t n = 0; n < tiles.size(); ++n) {
      for (Index i = 0; i < 16; ++i) {
        t.as<std::int32_t>()[i / 4 * columns + 4 * static_cast<Index>(n) + i % 4] =
            tiles[n].as<std::int32_t>()[i];
      }
    }
    return t;
  };
  const auto transposed = [&](const Tensor& owed) {
    std::vector<TileAt> tiles;
    for (Index c = 0; c < owed.extent(1); c += 4) tiles.push_back({0, c, 4, 4});
    return tiles_said(owed, all_written(owed, tiles));
  };
  EXPECT_EQ(transposed(beside({of({1, 2}), of({3, 4})})).find("tiles of 4 x 4 are transposed"), 0u);
  EXPECT_EQ(transposed(beside({of({1}), of({3}), of({5}), of({7})})), "") << "two in each";
  EXPECT_EQ(transposed(beside({of({1, 2, 3}), of({5})})), "") << "six and two";
}

TEST(Tiles, OfFewElementsAreNotLookedFor) {
  const Tensor owed = counted({8, 8});
  EXPECT_EQ(tiles_said(owed, owed), "");
  Tensor one = owed;
  one.as<std::int32_t>()[63] = 1;
  EXPECT_EQ(tiles_said(owed, one), "");
}

}  // namespace
}  // namespace mxo
