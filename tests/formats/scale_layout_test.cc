// Where the scales of a blocked matrix lie, by cuBLAS' words.
#include "formats/scale_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace mxo {
namespace {

TEST(ScaleLayout, TilesFollowEachOtherAlongARow) {
  EXPECT_EQ(kTileBytes, 512);
  EXPECT_EQ(blocked_offset(0, 4, 3), 512);
  EXPECT_EQ(blocked_offset(0, 8, 3), 1024);
  EXPECT_EQ(blocked_offset(128, 0, 3), 1536);
  EXPECT_EQ(blocked_offset(256, 4, 3), 3584);
}

TEST(ScaleLayout, TileIs32LinesOfFourWords) {
  EXPECT_EQ(blocked_offset(1, 0, 1), 16);
  EXPECT_EQ(blocked_offset(31, 0, 1), 496);
  EXPECT_EQ(blocked_offset(32, 0, 1), 4);
  EXPECT_EQ(blocked_offset(96, 0, 1), 12);
  EXPECT_EQ(blocked_offset(0, 3, 1), 3);
}

TEST(ScaleLayout, EveryByteIsOneElements) {
  std::vector<int> named(static_cast<std::size_t>(blocked_bytes(256, 12)));
  for (Index row = 0; row < 256; ++row) {
    for (Index column = 0; column < 12; ++column) {
      ++named.at(static_cast<std::size_t>(blocked_offset(row, column, 3)));
    }
  }
  for (const int times : named) EXPECT_EQ(times, 1);
}

TEST(ScaleLayout, BytesCountWholeTiles) {
  EXPECT_EQ(blocked_bytes(1, 1), 512);
  EXPECT_EQ(blocked_bytes(128, 4), 512);
  EXPECT_EQ(blocked_bytes(129, 5), 2048);
  EXPECT_EQ(blocked_bytes(0, 5), 0);
}

}  // namespace
}  // namespace mxo
