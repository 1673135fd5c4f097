// The table of splits, against a walk over its rows.
#include "ops/library_splits.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/library_split_layers.h"
#include "ops/library_split_steps.h"

namespace mxo {
namespace {

using namespace library_splits;

/// What the table says of m rows of one layer: of its steps the last that begins at m or before.
std::optional<int> walked(const Layer& layer, Index m) {
  if ((layer.kind == fp8_blockwise || layer.kind == fp8_blockwise_f32) && m % 4 != 0) {
    return std::nullopt;
  }
  int parts = -1;
  for (std::int32_t i = 0; i < layer.count; ++i) {
    const std::uint32_t step = kSteps[layer.first + i];
    if (static_cast<Index>(step / 16) <= m) parts = static_cast<int>(step % 16);
  }
  EXPECT_GE(parts, 0) << "the first step is of one row";
  return parts == 0 ? std::nullopt : std::optional<int>(parts);
}

TEST(LibrarySplits, EveryStepHoldsFromItsRowOn) {
  for (const Layer& layer : kLayers) {
    std::set<Index> rows{1, 2, 3, 4, 131069, 131072};
    for (std::int32_t i = 0; i < layer.count; ++i) {
      for (Index near = -5; near <= 5; ++near) {
        const Index m = static_cast<Index>(kSteps[layer.first + i] / 16) + near;
        if (m >= 1 && m <= 131072) rows.insert(m);
      }
    }
    for (const Index m : rows) {
      ASSERT_EQ(library_parts(layer.kind, m, layer.n, layer.k), walked(layer, m))
          << static_cast<int>(layer.kind) << " " << m << " x " << layer.n << " x " << layer.k;
    }
  }
}

TEST(LibrarySplits, WhatIsNotListedIsOnePart) {
  int whole = 0;
  for (const Shape& shape : kAsked) {
    EXPECT_TRUE(library_was_asked(shape.n, shape.k));
    bool listed = false;
    for (const Layer& layer : kLayers) {
      listed = listed || (layer.kind == bf16 && layer.n == shape.n && layer.k == shape.k);
    }
    if (listed) continue;
    ++whole;
    for (const Index m : {1, 5, 4096, 131072}) {
      EXPECT_EQ(library_parts(bf16, m, shape.n, shape.k), 1);
    }
  }
  EXPECT_GT(whole, 0);
}

TEST(LibrarySplits, WhatWasNotAskedIsNotKnown) {
  EXPECT_FALSE(library_was_asked(128, 2049));
  EXPECT_FALSE(library_was_asked(2048, 128)) << "N x K";
  EXPECT_EQ(library_parts(bf16, 128, 129, 2048), std::nullopt);
  for (const Index m : {Index{-1}, Index{0}, Index{131073}}) {
    EXPECT_EQ(library_parts(bf16, m, 128, 2048), std::nullopt) << m;
  }
  EXPECT_NE(library_parts(bf16, 131072, 128, 2048), std::nullopt);
  for (const LibraryProduct kind : {fp8_blockwise, fp8_blockwise_f32}) {
    EXPECT_EQ(library_parts(kind, 4095, 32768, 512), std::nullopt) << "4 does not divide 4095";
    EXPECT_NE(library_parts(kind, 4096, 32768, 512), std::nullopt);
  }
  EXPECT_NE(library_parts(fp8_fast, 4095, 32768, 512), std::nullopt);
}

}  // namespace
}  // namespace mxo
