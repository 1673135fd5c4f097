// Rows and tiles of an output that lie somewhere else in it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

using Sentences = std::vector<std::string>;

std::vector<Claim> claims_of(Came& came) { return recover_moved(came.output); }

Sentences sentences(Came& came) {
  Sentences all;
  for (const Claim& c : claims_of(came)) all.push_back(c.sentence);
  return all;
}

/// i32 that count, of which row r came as row from(r).
template <typename From>
Came rows(Index count, Index columns, const From& from) {
  const Tensor all = counted({count, columns});
  return Came(all, taken(all, [&](Index i) { return from(i / columns) * columns + i % columns; }));
}

template <typename From>
Sentences of_rows(Index count, Index columns, const From& from) {
  Came came = rows(count, columns, from);
  return sentences(came);
}

/// i32 that count, of which piece (r, p) of `width` came as the piece at from(r, p) elements.
template <typename From>
Sentences of_pieces(Index count, Index columns, Index width, const From& from) {
  const Tensor all = counted({count, columns});
  Came came(all, taken(all, [&](Index i) {
              const Index r = i / columns;
              const Index p = i % columns / width;
              return from(r, p) + i % width;
            }));
  return sentences(came);
}

TEST(Moved, RowsAreNamedByTheirDistance) {
  Came came = rows(64, 8, [](Index r) { return r >= 40 && r < 50 ? r - 20 : r; });
  const std::vector<Claim> claims = claims_of(came);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "rows.shifted");
  EXPECT_EQ(claims[0].sentence, "rows 40 to 49 of y hold the rows 20 before them");
  EXPECT_EQ(claims[0].where.rows, "40-49");
  EXPECT_EQ(claims[0].elements, 80.0);
  EXPECT_EQ(came.output.left, 0);
  EXPECT_EQ(of_rows(64, 8, [](Index r) { return r == 3 ? 9 : r; }),
            Sentences{"row 3 of y holds the row 6 after it"});
  EXPECT_EQ(of_rows(64, 8, [](Index r) { return r == 3 ? 4 : r; }),
            Sentences{"row 3 of y holds the row 1 after it"});
  EXPECT_EQ(of_rows(64, 8, [](Index r) { return r > 9 ? r - 1 : r; }),
            Sentences{"rows 10 to 63 of y each hold the row 1 before"});
}

TEST(Moved, RowsFromOnePlaceAreRepeated) {
  Came came = rows(64, 8, [](Index r) { return r >= 40 && r < 50 ? 7 : r; });
  const std::vector<Claim> claims = claims_of(came);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "rows.repeated");
  EXPECT_EQ(claims[0].sentence, "rows 40 to 49 of y repeat row 7");
  EXPECT_EQ(claims[0].elements, 80.0);
  EXPECT_EQ(came.output.left, 0);
}

TEST(Moved, ShortRowsAreRepeatedWhereHalfOfThemAre) {
  // Of ten rows that differ, `repeated` are row 7 and the others lie 20 before.
  const auto some = [](Index columns, Index repeated) {
    return of_rows(64, columns, [repeated](Index r) {
      return r < 40 || r >= 50 ? r : r < 40 + repeated ? 7 : r - 20;
    });
  };
  EXPECT_EQ(some(8, 5), (Sentences{"rows 40 to 44 of y repeat row 7",
                                   "rows 45 to 49 of y hold the rows 20 before them"}));
  EXPECT_EQ(some(8, 4), (Sentences{"rows 44 to 49 of y hold the rows 20 before them",
                                   "rows 40 to 43 of y hold other rows of the output, in another "
                                   "order"}));
  EXPECT_EQ(some(9, 2), (Sentences{"rows 40 to 41 of y repeat row 7",
                                   "rows 42 to 49 of y hold the rows 20 before them"}))
      << "36 bytes are long";
}

TEST(Moved, RowsAreOfSixteenBytesAtLeast) {
  const auto later = [](Index r) { return r < 20 ? r + 20 : r; };
  EXPECT_EQ(of_rows(64, 4, later), Sentences{"rows 0 to 19 of y hold the rows 20 after them"});
  EXPECT_EQ(of_rows(64, 3, later), Sentences{});
}

TEST(Moved, RowsAtManyDistancesAreAnotherOrder) {
  Came came = rows(64, 8, [](Index r) { return (r * 37 + 11) % 64; });
  const std::vector<Claim> claims = claims_of(came);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "rows.permuted");
  EXPECT_EQ(claims[0].sentence, "all of y hold other rows of the output, in another order");
  EXPECT_EQ(came.output.left, 0);
}

TEST(Moved, FourDistancesAreNamedOneByOne) {
  // Distances of 1 to 4, the more rows the earlier.
  const auto four = [](Index r) {
    const Index at[] = {10, 9, 8, 7};
    Index first = 0;
    for (Index d = 1; d <= 4; ++d) {
      if (r >= first && r < first + at[d - 1]) return r + 40 + d;
      first += at[d - 1];
    }
    return r;
  };
  EXPECT_EQ(of_rows(96, 8, four), (Sentences{"rows 0 to 9 of y hold the rows 41 after them",
                                             "rows 10 to 18 of y hold the rows 42 after them",
                                             "rows 19 to 26 of y hold the rows 43 after them",
                                             "rows 27 to 33 of y hold the rows 44 after them"}));
}

TEST(Moved, FourDistancesMayBeOfOneRow) {
  const auto four = [](Index r) {
    return r < 20 ? r + 40 : r < 30 ? r + 39 : r < 36 ? r + 38 : r == 36 ? 80 : r;
  };
  EXPECT_EQ(of_rows(96, 8, four), (Sentences{"rows 0 to 19 of y hold the rows 40 after them",
                                             "rows 20 to 29 of y hold the rows 39 after them",
                                             "rows 30 to 35 of y hold the rows 38 after them",
                                             "row 36 of y holds the row 44 after it"}));
}

TEST(Moved, RunsOfOneLengthAreNamedByDistance) {
  EXPECT_EQ(of_rows(96, 8, [](Index r) { return r < 8    ? r + 50
                                                : r < 16 ? r + 40
                                                         : r; }),
            (Sentences{"rows 8 to 15 of y hold the rows 40 after them",
                       "rows 0 to 7 of y hold the rows 50 after them"}));
}

TEST(Moved, AnEighthOfTheRowsIsARun) {
  // Five distances: of `large` rows, of `small`, and three of one row each.
  const auto five = [](Index large, Index small) {
    return of_rows(128, 8, [=](Index r) {
      const Index other = r - large - small;
      return r < large ? r + 60 : r < large + small ? r + 50 : other < 3 ? 100 + 3 * other : r;
    });
  };
  EXPECT_EQ(five(20, 5).size(), 3u) << "5 of 28";
  EXPECT_EQ(five(18, 3).size(), 3u) << "3 of 24";
  EXPECT_EQ(five(19, 3).size(), 2u) << "3 of 25";
}

TEST(Moved, LargeRunsAmongManyDistancesAreNamed) {
  // 24 rows at one distance, and 8 at one of their own each.
  const auto some = [](Index r) {
    return r < 24 ? r + 60 : r < 32 ? 140 + (r - 24) * (r - 24) : r;
  };
  EXPECT_EQ(of_rows(256, 8, some),
            (Sentences{"rows 0 to 23 of y hold the rows 60 after them",
                       "rows 24 to 31 of y hold other rows of the output, in another order"}));
}

TEST(Moved, TilesAreNamedByRowsAndColumns) {
  const auto tile = [](Index r, Index p) { return (r < 16 && p == 1 ? r + 16 : r) * 96 + p * 32; };
  EXPECT_EQ(of_pieces(48, 96, 32, tile),
            Sentences{"columns 32 to 63 of rows 0 to 15 of y hold the rows 16 after them"});
  const auto columns = [](Index r, Index p) { return r * 96 + (r < 16 && p == 1 ? 0 : p * 32); };
  EXPECT_EQ(
      of_pieces(48, 96, 32, columns),
      Sentences{"columns 32 to 63 of rows 0 to 15 of y hold what is expected 32 elements before"});
  const auto after = [](Index r, Index p) { return r * 96 + (r < 16 && p == 1 ? 64 : p * 32); };
  EXPECT_EQ(
      of_pieces(48, 96, 32, after),
      Sentences{"columns 32 to 63 of rows 0 to 15 of y hold what is expected 32 elements after"});
}

TEST(Moved, TilesAreOfSixteenColumnsAtLeast) {
  const auto tile = [](Index r, Index p) { return (r < 16 && p == 1 ? r + 16 : r) * 48 + p * 16; };
  EXPECT_EQ(of_pieces(48, 48, 16, tile),
            Sentences{"columns 16 to 31 of rows 0 to 15 of y hold the rows 16 after them"});
  const auto half = [](Index r, Index p) { return (r < 16 && p == 1 ? r + 16 : r) * 48 + p * 8; };
  EXPECT_EQ(of_pieces(48, 48, 8, half), Sentences{});
}

TEST(Moved, RowsAreTwoAtLeast) {
  EXPECT_EQ(of_rows(2, 8, [](Index r) { return 1 - r; }).size(), 2u);
  EXPECT_EQ(of_pieces(1, 96, 32, [](Index, Index p) { return p == 1 ? 0 : p * 32; }), Sentences{});
}

TEST(Moved, TilesMayBeOfSixteenBytes) {
  const Tensor all = filled<std::uint8_t>(Dtype::u8, {32, 64}, [](Index i) {
    return static_cast<std::uint32_t>(i) * 2654435761u >> 24;
  });
  Came came(all, filled<std::uint8_t>(Dtype::u8, {32, 64}, [&](Index i) {
              const bool moved = i / 64 < 8 && i % 64 / 16 == 1;
              return all.as<std::uint8_t>()[moved ? i + 8 * 64 : i];
            }));
  EXPECT_EQ(sentences(came),
            Sentences{"columns 16 to 31 of rows 0 to 7 of y hold the rows 8 after them"});
}

TEST(Moved, AFewTilesAmongManyDifferencesAreNone) {
  const Tensor all = counted({100, 64});
  const auto spoiled = [&](Index tiles) {
    Tensor came = taken(all, [](Index i) { return i / 64 < 50 ? -1 : i; });
    for (Index r = 0; r < tiles; ++r) {
      std::memcpy(came.as<std::int32_t>() + r * 64, all.as<std::int32_t>() + (r + 60) * 64 + 32,
                  32 * sizeof(std::int32_t));
    }
    Came c(all, came);
    return sentences(c).size();
  };
  // 50 rows of 64 columns differ: 3,200 elements (but element 0), of which a fiftieth is two tiles.
  EXPECT_EQ(spoiled(1), 0u);
  EXPECT_EQ(spoiled(2), 1u);
  Came row(all, taken(all, [](Index i) { return i / 64 == 3 ? i + 3840 : i / 64 < 60 ? -1 : i; }));
  EXPECT_EQ(sentences(row), Sentences{"row 3 of y holds the row 60 after it"});
}

TEST(Moved, RowsOfOneValueSayNothing) {
  Tensor all = counted({64, 8});
  for (Index r = 0; r < 64; r += 2) std::fill_n(all.as<std::int32_t>() + r * 8, 8, 1000 + r);
  Came came(all, taken(all, [](Index i) { return i / 8 == 11 ? 20 * 8 + i % 8 : i; }));
  EXPECT_EQ(sentences(came), Sentences{});
}

TEST(Moved, RowsThatOccurOftenAreOfNoPlace) {
  const auto same = [](Index copies) {
    Tensor all = counted({64, 8});
    for (Index r = 20; r < 20 + copies; ++r) {
      std::memcpy(all.as<std::int32_t>() + r * 8, all.as<std::int32_t>() + 20 * 8, 32);
    }
    Came came(all, taken(all, [](Index i) { return i / 8 == 40 ? 21 * 8 + i % 8 : i; }));
    return sentences(came);
  };
  EXPECT_EQ(same(4), Sentences{"row 40 of y holds the row 17 before it"}) << "the nearest, row 23";
  EXPECT_EQ(same(5), Sentences{});
  EXPECT_EQ(same(6), Sentences{});
  const auto two = [](Index first, Index second) {
    Tensor all = counted({64, 8});
    std::memcpy(all.as<std::int32_t>() + second * 8, all.as<std::int32_t>() + first * 8, 32);
    Came came(all, taken(all, [first](Index i) { return i / 8 == 40 ? first * 8 + i % 8 : i; }));
    return sentences(came);
  };
  EXPECT_EQ(two(45, 60), Sentences{"row 40 of y holds the row 5 after it"});
  EXPECT_EQ(two(30, 50), Sentences{"row 40 of y holds the row 10 before it"}) << "of equals";
}

TEST(Moved, RowsThatNobodyOwesAreNoSource) {
  const Tensor all = counted({64, 8});
  Came came(all, taken(all, [](Index i) { return i / 8 < 8 ? i + 50 * 8 : i; }));
  came.output.owed = 58;
  EXPECT_EQ(sentences(came), Sentences{"rows 0 to 7 of y hold the rows 50 after them"});
  Came other(all, taken(all, [](Index i) { return i / 8 < 8 ? i + 50 * 8 : i; }));
  other.output.owed = 48;
  EXPECT_EQ(sentences(other), Sentences{});
}

/// Bytes of 127, but for 126 in column r mod 16 and, from row 16 on, in column 5 r + 1 mod 16.
Tensor bytes_of_two_values() {
  return filled<std::uint8_t>(Dtype::u8, {64, 16}, [](Index i) {
    const Index r = i / 16;
    const Index c = i % 16;
    return c == r % 16 || (r >= 16 && c == (5 * r + 1) % 16) ? 126 : 127;
  });
}

TEST(Moved, RowsOfFewValuesAreAlikeByChance) {
  const Tensor all = bytes_of_two_values();
  const auto came_from = [&](Index first, Index count, Index step) {
    Tensor actual = all;
    for (Index r = 0; r < count; ++r) {
      std::memcpy(actual.as<std::uint8_t>() + (40 + r) * 16,
                  all.as<std::uint8_t>() + (first + step * r) * 16, 16);
    }
    Came came(all, actual);
    return sentences(came);
  };
  EXPECT_EQ(came_from(3, 3, 0), Sentences{}) << "some 5 bits each, of which 10 tell the places";
  EXPECT_EQ(came_from(3, 3, 1), Sentences{});
  EXPECT_EQ(came_from(0, 16, 1), Sentences{"rows 40 to 55 of y hold the rows 40 before them"});
}

}  // namespace
}  // namespace mxo
