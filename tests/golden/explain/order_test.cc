// The right values in another order: lanes, rows, matrices, tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// Numbers from 0 whose element i was written to to(i).
template <typename To>
Tensor written(const std::vector<Index>& shape, const To& to) {
  Tensor t(Dtype::i32, shape);
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::int32_t>()[to(i)] = static_cast<std::int32_t>(i);
  }
  return t;
}

/// The first thing that is said of an output of numbers from 0 that came as `actual`.
std::string said(Tensor actual) {
  Tensor expected = counted(actual.shape());
  Came came(std::move(expected), std::move(actual));
  const std::vector<Claim> claims = recover_order(came.output);
  return claims.empty() ? "" : claims.front().id + " | " + claims.front().sentence;
}

/// The index of neighbour k of every run of g, moved to place(k) of its run.
template <typename Place>
std::string lanes(Index g, const Place& place) {
  return said(written({2, 3 * g}, [&](Index i) { return i / g * g + place(i % g); }));
}

TEST(Order, OfNeighboursIsFoundInRuns) {
  for (const Index g : {2, 4, 8, 16, 32, 64, 128}) {
    const std::string n = std::to_string(g);
    EXPECT_EQ(lanes(g, [g](Index k) { return g - 1 - k; }),
              "order.reversed_" + n + " | y: neighbours are reversed in runs of " + n);
    if (g == 2) continue;
    EXPECT_EQ(lanes(g, [g](Index k) { return k < g / 2 ? k + g / 2 : k - g / 2; }),
              "order.exchanged_halves_" + n + " | y: the halves of every " + n +
                  " neighbours are exchanged");
    EXPECT_EQ(lanes(g, [g](Index k) { return k < g / 2 ? 2 * k : 2 * k - g + 1; }),
              "order.interleaved_" + n + " | y: the halves of every " + n +
                  " neighbours are interleaved");
    const std::string apart = lanes(g, [g](Index k) { return k % 2 * (g / 2) + k / 2; });
    EXPECT_EQ(apart, g == 4 ? "order.interleaved_4 | y: the halves of every 4 neighbours are "
                              "interleaved"
                            : "order.deinterleaved_" + n + " | y: even and odd ones of every " + n +
                                  " neighbours are set apart");
  }
}

TEST(Order, OfRunsThatCrossRowsIsNone) {
  EXPECT_EQ(said(written({2, 12}, [](Index i) { return i / 8 * 8 + 7 - i % 8; })), "");
}

TEST(Order, OfTheHalvesOfARowIsFound) {
  const auto row = [](const auto& place) {
    return said(written({3, 12}, [&](Index i) { return i - i % 12 + place(i % 12); }));
  };
  EXPECT_EQ(row([](Index c) { return c < 6 ? c + 6 : c - 6; }),
            "order.halves | y: the halves of each row are exchanged");
  EXPECT_EQ(row([](Index c) { return c < 6 ? 2 * c : 2 * c - 11; }),
            "order.interleaved | y: the halves of each row are interleaved");
}

TEST(Order, OfRowsThatAreShiftedIsFound) {
  for (const Index by : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const Index columns = 2 * by + 3;
    for (const Index place : {by, columns - by}) {
      const std::string way = place == by ? " to the right" : " to the left";
      EXPECT_EQ(
          said(written({4, columns},
                       [&](Index i) { return i - i % columns + (i % columns + place) % columns; })),
          "order.columns_shifted | y: each row is shifted by " + std::to_string(by) + way);
    }
  }
  const auto by_three = [](Index i) { return i - i % 14 + (i % 14 + 3) % 14; };
  EXPECT_EQ(said(written({4, 14}, by_three)), "");
}

TEST(Order, OfAMatrixIsFound) {
  const std::string written_so = "order.transposed | y: it is written column-major";
  const std::string read_so = "order.untransposed | y: it is read column-major";
  const auto turned = [](Index i, Index rows, Index columns) {
    return i % columns * rows + i / columns;
  };
  EXPECT_EQ(said(written({5, 7}, [&](Index i) { return turned(i, 5, 7); })), written_so);
  EXPECT_EQ(said(written({5, 7}, [&](Index i) { return turned(i, 7, 5); })), read_so);
  // Each matrix of three for itself, and the first two axes.
  const auto each = [&](Index rows, Index columns) {
    return said(
        written({3, 5, 7}, [&](Index i) { return i / 35 * 35 + turned(i % 35, rows, columns); }));
  };
  EXPECT_EQ(each(5, 7), written_so);
  EXPECT_EQ(each(7, 5), read_so);
  EXPECT_EQ(said(written({3, 5, 7}, [](Index i) { return (i / 7 % 5 * 3 + i / 35) * 7 + i % 7; })),
            "order.outer_exchanged | y: its first two axes are exchanged");
}

/// Where an element of a matrix of whole 128x4 tiles lies among them.
Index tiled(Index row, Index column, Index columns) {
  const Index tile = row / 128 * (columns / 4) + column / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}

TEST(Order, OfTilesIsFound) {
  std::vector<Index> place(256 * 12);
  for (Index i = 0; i < 256 * 12; ++i) {
    place[static_cast<std::size_t>(i)] = tiled(i / 12, i % 12, 12);
  }
  std::vector<Index> back(place.size());
  for (std::size_t i = 0; i < place.size(); ++i) {
    back[static_cast<std::size_t>(place[i])] = static_cast<Index>(i);
  }
  const auto by = [](std::vector<Index> shape, const std::vector<Index>& to) {
    const auto n = static_cast<Index>(to.size());
    return said(
        written(shape, [&](Index i) { return i / n * n + to[static_cast<std::size_t>(i % n)]; }));
  };
  EXPECT_EQ(by({256, 12}, place), "order.tiles | y: it is written in 128x4 tiles");
  EXPECT_EQ(by({2, 256, 12}, place), "order.tiles | y: it is written in 128x4 tiles");
  EXPECT_EQ(by({256, 12}, back),
            "order.untiled | y: it is written as if its 128x4 tiles were rows");
  EXPECT_EQ(by({2, 256, 12}, back),
            "order.untiled | y: it is written as if its 128x4 tiles were rows");
}

TEST(Order, OfTilesIsNoneOfOtherMatrices) {
  const auto reversed = [](const std::vector<Index>& shape) {
    const Index n = std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
    return said(written(shape, [n](Index i) { return n - 1 - i; }));
  };
  EXPECT_EQ(reversed({128, 3}), "");
  EXPECT_EQ(reversed({96, 4}), "");
}

TEST(Order, OfAFlatMatrixIsFound) {
  for (const Index width : {2, 4, 8, 16, 32, 64, 128, 256}) {
    const Index height = 9;
    EXPECT_EQ(
        said(written({height * width}, [&](Index i) { return i % width * height + i / width; })),
        "order.transposed | y: it is written column-major, " + std::to_string(width) + " a row")
        << width;
  }
  const auto turned = [](Index n, Index width) {
    return said(written({n}, [&](Index i) { return i % width * (n / width) + i / width; }));
  };
  EXPECT_EQ(turned(16, 4), "") << "too few to tell";
  EXPECT_EQ(turned(18, 2), "order.transposed | y: it is written column-major, 2 a row");
  EXPECT_EQ(turned(36, 3), "") << "a width that nobody has";
}

TEST(Order, OfTilesNeedsWholeOnes) {
  // Nine rows of four: the rows of a tile lie up to 131 elements on.
  Tensor actual = taken(counted({36}), [](Index i) {
    const Index from = i / 4 * 16 + i % 4;
    return from < 36 ? from : -1;
  });
  EXPECT_EQ(said(std::move(actual)), "");
}

TEST(Order, OfTheTilesOfAFlatMatrixIsFound) {
  // Element r * 8 + c of the rows was written where the tiles have byte r * 8 + c of theirs.
  const auto rows_for_tiles = [](Index width, Index height) {
    Tensor t(Dtype::i32, {width * height});
    for (Index i = 0; i < t.elements(); ++i) {
      t.as<std::int32_t>()[i] = static_cast<std::int32_t>(tiled(i / width, i % width, width));
    }
    return said(std::move(t));
  };
  for (const Index width : {4, 8, 16}) {
    EXPECT_EQ(rows_for_tiles(width, 256), "order.untiled | y: the rows of its matrix, " +
                                              std::to_string(width) +
                                              " a row, take the place of 128x4 tiles");
  }
}

TEST(Order, NeedsEightElements) {
  const auto pairs = [](Index n) {
    return said(written({2, 16}, [n](Index i) { return i < n ? i ^ 1 : i; }));
  };
  EXPECT_EQ(pairs(6), "");
  EXPECT_EQ(pairs(8), "");
  const auto four_columns = [](Index n) {
    return said(written({4, 4}, [n](Index i) { return i < n ? i ^ 1 : i; }));
  };
  EXPECT_EQ(four_columns(4), "");
  EXPECT_EQ(four_columns(8),
            "order.reversed_2 | rows 0 to 1 of y: neighbours are reversed in runs of 2");
}

TEST(Order, IsToldOnceOfEveryPart) {
  Tensor actual = written({96, 16}, [](Index i) { return i < 768 ? i ^ 1 : i ^ 7; });
  Tensor expected = counted(actual.shape());
  Came came(std::move(expected), std::move(actual));
  const std::vector<Claim> claims = recover_order(came.output);
  ASSERT_EQ(claims.size(), 2u);
  EXPECT_EQ(claims[0].sentence, "rows 0 to 47 of y: neighbours are reversed in runs of 2");
  EXPECT_EQ(claims[1].id, "order.reversed_8");
  EXPECT_EQ(claims[1].where.rows, "48-95");
  EXPECT_EQ(came.output.left, 0);
}

}  // namespace
}  // namespace mxo
