// Runs of short rows, as those of scales, that hold what is expected elsewhere.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// Scales of `columns` bytes a row, of which 4 values occur in no order.
Tensor scales_of(Index rows, Index columns) {
  std::uint32_t state = 7;
  return filled<std::uint8_t>(Dtype::e8m0, {rows, columns}, [&](Index) {
    state = state * 1664525u + 1013904223u;
    return 120 + (state >> 30);
  });
}

/// `given` of which row r is row from(r), where that is not negative.
template <typename From>
Tensor rows_of(const Tensor& given, const From& from) {
  const Index columns = given.shape()[1];
  return filled<std::uint8_t>(given.dtype(), given.shape(), [&](Index i) {
    const Index row = from(i / columns);
    return given.as<std::uint8_t>()[(row < 0 ? i / columns : row) * columns + i % columns];
  });
}

std::vector<std::string> sentences(Came& came) {
  std::vector<std::string> all;
  for (const Claim& c : recover_moved_runs(came.output)) all.push_back(c.sentence);
  return all;
}

template <typename From>
std::vector<std::string> of(Index rows, Index columns, const From& from) {
  const Tensor scales = scales_of(rows, columns);
  Came came(scales, rows_of(scales, from), {"any", {}, {}}, "scales");
  return sentences(came);
}

using Sentences = std::vector<std::string>;

TEST(MovedRuns, AreNamedByTheirDistance) {
  const Tensor scales = scales_of(64, 8);
  Came came(scales, rows_of(scales, [](Index r) { return r < 48 ? -1 : r - 16; }), {"any", {}, {}},
            "scales");
  const std::vector<Claim> claims = recover_moved_runs(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "rows.shifted");
  EXPECT_EQ(claims[0].sentence, "rows 48 to 63 of scales hold the rows 16 before them");
  EXPECT_EQ(claims[0].where.rows, "48-63");
  EXPECT_EQ(claims[0].elements, static_cast<double>(came.output.differing));
  EXPECT_EQ(came.output.left, 0);
  EXPECT_EQ(of(64, 8, [](Index r) { return r < 32 ? r + 32 : -1; }),
            Sentences{"rows 0 to 31 of scales hold the rows 32 after them"});
}

TEST(MovedRuns, OfOneRowAreSaidOfTheRow) {
  EXPECT_EQ(of(64, 15, [](Index r) { return r == 40 ? 41 : -1; }),
            Sentences{"row 40 of scales holds the row 1 after it"});
  EXPECT_EQ(of(64, 3, [](Index r) { return r > 9 ? r - 1 : -1; }),
            Sentences{"rows 10 to 63 of scales each hold the row 1 before"});
}

TEST(MovedRuns, ThatChangePlacesAreTwo) {
  EXPECT_EQ(of(64, 4, [](Index r) { return (r + 32) % 64; }),
            (Sentences{"rows 32 to 63 of scales hold the rows 32 before them",
                       "rows 0 to 31 of scales hold the rows 32 after them"}));
}

TEST(MovedRuns, MayBeOneScaleARow) {
  EXPECT_EQ(of(128, 1, [](Index r) { return r < 32 ? r + 64 : -1; }),
            Sentences{"rows 0 to 31 of scales hold the rows 64 after them"});
}

TEST(MovedRuns, HaveGoneFurtherThanChanceDoes) {
  EXPECT_EQ(of(64, 1, [](Index r) { return r < 8 ? r + 8 : -1; }), Sentences{});
  EXPECT_EQ(of(64, 8, [](Index r) { return r / 2 * 2 + (r + r / 2) % 2; }).size(), 0u)
      << "single rows of 16 bits each";
}

TEST(MovedRuns, OfLongRowsAreOthersToName) {
  EXPECT_EQ(of(64, 16, [](Index r) { return r < 32 ? r + 32 : -1; }), Sentences{});
}

TEST(MovedRuns, ComeFromTheNearestPlace) {
  const auto twice = [](Index first, Index second) {
    const Tensor given = scales_of(64, 8);
    const Tensor scales = rows_of(
        given, [=](Index r) { return r >= second && r < second + 8 ? r - second + first : -1; });
    Came came(scales,
              rows_of(scales, [=](Index r) { return r >= 24 && r < 32 ? r - 24 + first : -1; }),
              {"any", {}, {}}, "scales");
    return sentences(came);
  };
  EXPECT_EQ(twice(0, 40), Sentences{"rows 24 to 31 of scales hold the rows 16 after them"});
  EXPECT_EQ(twice(16, 56), Sentences{"rows 24 to 31 of scales hold the rows 8 before them"});
  EXPECT_EQ(twice(8, 40), Sentences{"rows 24 to 31 of scales hold the rows 16 before them"})
      << "of equals the first";
}

TEST(MovedRuns, BeginAndEndWithRowsThatDiffer) {
  Tensor scales = scales_of(64, 4);
  for (Index c = 0; c < 4; ++c) {
    scales.as<std::uint8_t>()[47 * 4 + c] = scales.as<std::uint8_t>()[31 * 4 + c];
    scales.as<std::uint8_t>()[60 * 4 + c] = scales.as<std::uint8_t>()[44 * 4 + c];
  }
  Came came(scales, rows_of(scales, [](Index r) { return r >= 48 && r < 60 ? r - 16 : -1; }),
            {"any", {}, {}}, "scales");
  EXPECT_EQ(sentences(came), Sentences{"rows 48 to 59 of scales hold the rows 16 before them"});
}

TEST(MovedRuns, AreLookedForInSomeThousandRows) {
  const auto all_of = [](Index rows) {
    return of(rows, 2, [rows](Index r) { return r < rows - 16 ? r + 16 : -1; });
  };
  EXPECT_EQ(all_of(8000), Sentences{"rows 0 to 7983 of scales hold the rows 16 after them"});
  EXPECT_EQ(all_of(9000), Sentences{});
}

TEST(MovedRuns, MayHaveFourDistances) {
  // The first 16 of every 32 rows lie 16, 17 and so on after.
  const auto runs = [](Index count) {
    return of(256, 8,
              [count](Index r) { return r / 32 < count && r % 32 < 16 ? r + 16 + r / 32 : -1; });
  };
  EXPECT_EQ(runs(4).size(), 4u);
  EXPECT_EQ(runs(5).size(), 0u);
}

TEST(MovedRuns, AtManyDistancesAreNoRuns) {
  EXPECT_EQ(
      of(160, 8, [](Index r) { return r / 32 == 4 ? r : r / 32 * 32 + (r + 3 + r / 32) % 32; }),
      Sentences{});
}

}  // namespace
}  // namespace mxo
