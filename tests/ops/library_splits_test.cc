// The table of splits, against a walk over its rows.
#include "ops/library_splits.h"

#include <gtest/gtest.h>

#include <set>
#include <span>

#include "formats/error.h"
#include "ops/h100_split_layers.h"
#include "ops/h100_split_steps.h"
#include "ops/h200_split_layers.h"
#include "ops/h200_split_steps.h"

namespace mxo {
namespace {

using namespace library_splits;
using enum LibraryProduct;

struct Table {
  LibraryMachine machine;
  std::span<const Shape> asked;
  std::span<const Layer> layers;
  const std::uint32_t* steps;
};
const Table kTables[] = {{LibraryMachine::h100, h100::kAsked, h100::kLayers, h100::kSteps},
                         {LibraryMachine::h200, h200::kAsked, h200::kLayers, h200::kSteps}};

/// What the table says of m rows of one layer: of its steps the last that begins at m or before.
std::optional<int> walked(const Table& table, const Layer& layer, Index m) {
  if ((layer.kind == fp8_blockwise || layer.kind == fp8_blockwise_f32) && m % 4 != 0) {
    return std::nullopt;
  }
  int parts = -1;
  for (std::int32_t i = 0; i < layer.count; ++i) {
    const std::uint32_t step = table.steps[layer.first + i];
    if (static_cast<Index>(step / 16) <= m) parts = static_cast<int>(step % 16);
  }
  EXPECT_GE(parts, 0) << "the first step is of one row";
  return parts == 0 ? std::nullopt : std::optional<int>(parts);
}

TEST(LibrarySplits, EveryStepHoldsFromItsRowOn) {
  for (const Table& table : kTables)
    for (const Layer& layer : table.layers) {
      std::set<Index> rows{1, 2, 3, 4, 131069, 131072};
      for (std::int32_t i = 0; i < layer.count; ++i) {
        for (Index near = -5; near <= 5; ++near) {
          const Index m = static_cast<Index>(table.steps[layer.first + i] / 16) + near;
          if (m >= 1 && m <= 131072) rows.insert(m);
        }
      }
      for (const Index m : rows) {
        ASSERT_EQ(library_parts(table.machine, layer.kind, m, layer.n, layer.k),
                  walked(table, layer, m))
            << static_cast<int>(layer.kind) << " " << m << " x " << layer.n << " x " << layer.k;
      }
    }
}

TEST(LibrarySplits, WhatIsNotListedIsOnePart) {
  for (const Table& table : kTables) {
    int whole = 0;
    for (const Shape& shape : table.asked) {
      EXPECT_TRUE(library_was_asked(table.machine, shape.n, shape.k));
      bool listed = false;
      for (const Layer& layer : table.layers) {
        listed = listed || (layer.kind == bf16 && layer.n == shape.n && layer.k == shape.k);
      }
      if (listed) continue;
      ++whole;
      for (const Index m : {1, 5, 4096, 131072}) {
        EXPECT_EQ(library_parts(table.machine, bf16, m, shape.n, shape.k), 1);
      }
    }
    EXPECT_GT(whole, 0);
  }
}

TEST(LibrarySplits, WhatWasNotAskedIsNotKnown) {
  EXPECT_FALSE(library_was_asked(LibraryMachine::h200, 128, 2049));
  EXPECT_FALSE(library_was_asked(LibraryMachine::h200, 2048, 128)) << "N x K";
  EXPECT_EQ(library_parts(LibraryMachine::h200, bf16, 128, 129, 2048), std::nullopt);
  for (const Index m : {Index{-1}, Index{0}, Index{131073}}) {
    EXPECT_EQ(library_parts(LibraryMachine::h200, bf16, m, 128, 2048), std::nullopt) << m;
  }
  EXPECT_NE(library_parts(LibraryMachine::h200, bf16, 131072, 128, 2048), std::nullopt);
  for (const LibraryProduct kind : {fp8_blockwise, fp8_blockwise_f32}) {
    EXPECT_EQ(library_parts(LibraryMachine::h200, kind, 4095, 32768, 512), std::nullopt)
        << "4 does not divide 4095";
    EXPECT_NE(library_parts(LibraryMachine::h200, kind, 4096, 32768, 512), std::nullopt);
  }
  EXPECT_NE(library_parts(LibraryMachine::h200, fp8_fast, 4095, 32768, 512), std::nullopt);
}

TEST(LibrarySplits, MachinesHaveNames) {
  for (const Table& table : kTables) {
    EXPECT_EQ(library_machine_named(name_of(table.machine)), table.machine);
  }
  EXPECT_EQ(library_of(LibraryMachine::h100), "cuBLASLt 13.1.0 on an H100");
  EXPECT_THROW(library_machine_named("H100"), Error);
}

}  // namespace
}  // namespace mxo
