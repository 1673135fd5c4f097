// What the machine cannot hold is refused before it is asked for.
#include "formats/memory_room.h"
#include "tests/support/refusal.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace mxo {
namespace {

std::string said_of(Dtype dtype, const std::vector<Index>& shape) {
  return refusal([&] { require_room("q: y", dtype, shape); });
}

TEST(MemoryRoom, WhatFitsPasses) {
  EXPECT_EQ(said_of(Dtype::f32, {1024, 1024}), "");
  EXPECT_EQ(said_of(Dtype::f32, {}), "");
  EXPECT_EQ(said_of(Dtype::f32, {0, Index{1} << 62, Index{1} << 62}), "");
}

TEST(MemoryRoom, MoreThanThereIsIsRefused) {
  const std::string petabyte = said_of(Dtype::u8, {Index{1} << 25, Index{1} << 25});
  EXPECT_TRUE(petabyte.starts_with("q: y: found u8 [33554432, 33554432], needs at most the "));
  // Products that wrap around to 0 and to 4 bytes.
  EXPECT_NE(said_of(Dtype::f32, {Index{1} << 62}), "");
  EXPECT_NE(said_of(Dtype::f32, {(Index{1} << 62) + 1}), "");
}

TEST(MemoryRoom, ExtentsBelowZeroAreRefused) {
  EXPECT_EQ(said_of(Dtype::bf16, {3, -1}), "q: y: found bf16 [3, -1], needs extents of at least 0");
}

}  // namespace
}  // namespace mxo
