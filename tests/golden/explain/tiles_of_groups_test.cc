// Transposed tiles of an output in groups, or of many matrices.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/golden/transposed_tiles.h"

namespace mxo {
namespace {

/// An output in groups, as ends say.
struct GroupedTiles : Came {
  GroupedTiles(const Tensor& owed, Tensor came, const std::vector<Index>& ends)
      : Came(owed, std::move(came)) {
    output.ends = ends;
    output.owed = ends.back();
  }
};

TEST(TilesOfGroups, BeginWithTheirGroupOrTheOutput) {
  const Tensor owed = counted({12, 8});
  const Tensor in_groups = all_written(owed, {{3, 0, 4, 4}, {7, 0, 4, 4}});
  EXPECT_EQ(tiles_said(owed, in_groups), "");
  GroupedTiles groups(owed, in_groups, {3, 12});
  EXPECT_EQ(
      tiles_said(groups).find("tiles of 4 x 4 are transposed, in columns 0 to 3 of rows 3 to 10"),
      0u);
  GroupedTiles whole(owed, all_written(owed, {{4, 0, 4, 4}, {8, 0, 4, 4}}), {3, 12});
  EXPECT_EQ(
      tiles_said(whole).find("tiles of 4 x 4 are transposed, in columns 0 to 3 of rows 4 to 11"),
      0u);
}

TEST(TilesOfGroups, EndWithThem) {
  const Tensor owed = counted({12, 8});
  GroupedTiles twice(owed, all_written(owed, {{4, 0, 4, 4}, {8, 4, 4, 4}}), {4, 12});
  const auto claims = recover_tiles(twice.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 24) << "each counts once";
  // Rows 6 to 9 are of both groups, those from 11 on of none.
  GroupedTiles across(owed, all_written(owed, {{6, 0, 4, 4}, {6, 4, 4, 4}}), {2, 8, 12});
  EXPECT_EQ(tiles_said(across), "");
}

TEST(TilesOfGroups, BeginWithTheirMatrix) {
  const Tensor owed = counted({2, 6, 8});
  EXPECT_EQ(tiles_said(owed, all_written(owed, {{6, 0, 4, 4}, {6, 4, 4, 4}, {0, 0, 4, 4}}))
                .find("tiles of 4 x 4 are transposed"),
            0u);
  EXPECT_EQ(tiles_said(owed, all_written(owed, {{4, 0, 4, 4}, {8, 4, 4, 4}})), "");
}

}  // namespace
}  // namespace mxo
