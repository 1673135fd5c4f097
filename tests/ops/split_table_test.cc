// The table of splits of libraries: its rows, and which product asks for which.
#include <gtest/gtest.h>

#include <set>

#include "ops/catalogue/split_table.h"
#include "ops/h100_split_layers.h"
#include "ops/h100_split_steps.h"
#include "ops/h200_split_layers.h"
#include "ops/h200_split_steps.h"
#include "tests/support/refusal.h"

namespace mxo::split_table_test {
namespace {

/// What is neither read nor written.
Operand shaped(Dtype dtype, std::initializer_list<Index> shape) {
  return view_of(static_cast<const void*>(nullptr), dtype, shape);
}

const char* const kRefused =
    "q: sum.split: found table, which has one matrix of bf16, of e4m3 with a scale a tensor, or of "
    "e4m3 with 1x128 by 128x128 scales (cuBLASLt 13.1.0 on an H200)";

/// Rows by one matrix, of a shape in which the kinds of products have different parts.
struct SplitTable : testing::Test {
  Index m = 64, n = 7168, k = 36864;
  GroupedMatmul op;
  Parameters set;

  void plain(Dtype x, Dtype w) {
    op.x = unscaled(shaped(x, {m, k}));
    op.w = unscaled(shaped(w, {1, n, k}));
  }
  void of_tensors(Dtype x = Dtype::e4m3, Dtype w = Dtype::e4m3) {
    plain(x, w);
    op.x.scales = op.w.scales = shaped(Dtype::f32, {1});
    op.x.block = op.w.block = kWholeTensor;
  }
  void of_blocks() {
    of_tensors();
    op.x.scales = shaped(Dtype::f32, {m, k / 128});
    op.x.block = kRowBlock;
    op.w.scales = shaped(Dtype::f32, {1, n / 128, k / 128});
    op.w.block = kSquareBlock;
  }
  /// The parts, or what is said.
  std::string parts(Dtype out = Dtype::bf16, int promote = 0) {
    op.y.dtype = out;
    op.sum.promote = promote;
    int found = 0;
    const std::string said =
        refusal([&] { found = split_by_table("q", op, set); }, Fault::unsupported);
    return said.empty() ? std::to_string(found) : said;
  }
};

TEST_F(SplitTable, KindsAreToldByTypesScalesAndSums) {
  of_tensors();
  EXPECT_EQ(parts(), "3");
  EXPECT_EQ(parts(Dtype::bf16, 4), "2");
  of_blocks();
  EXPECT_EQ(parts(), "7");
  plain(Dtype::bf16, Dtype::bf16);
  EXPECT_EQ(parts(), "3");
  m = 16;
  n = 7168;
  k = 18432;
  plain(Dtype::bf16, Dtype::bf16);
  EXPECT_EQ(parts(), "7") << "and of other kinds 4 and 2";
}

TEST_F(SplitTable, KindsOfF32AreTheirOwn) {
  m = 256;
  n = 6144;
  k = 32768;
  of_tensors();
  EXPECT_EQ(parts(), "1");
  EXPECT_EQ(parts(Dtype::f32), "2");
  EXPECT_EQ(parts(Dtype::f32, 4), "1");
  of_blocks();
  EXPECT_EQ(parts(), "1");
  EXPECT_EQ(parts(Dtype::f32), "4");
  plain(Dtype::bf16, Dtype::bf16);
  EXPECT_EQ(parts(Dtype::f32), kRefused);
}

TEST_F(SplitTable, OneScaleIsOfATensorWhateverTheBlock) {
  of_tensors();
  op.x.block = kRowBlock;
  EXPECT_EQ(parts(), "3");
  op.x.block = kWholeTensor;
  op.w.block = kSquareBlock;
  EXPECT_EQ(parts(), "3");
}

TEST_F(SplitTable, OtherProductsAreRefused) {
  plain(Dtype::bf16, Dtype::f16);
  EXPECT_EQ(parts(), kRefused);
  plain(Dtype::f16, Dtype::bf16);
  EXPECT_EQ(parts(), kRefused);
  plain(Dtype::e4m3, Dtype::e4m3);
  EXPECT_EQ(parts(), kRefused) << "without scales";
  of_tensors(Dtype::e5m2, Dtype::e4m3);
  EXPECT_EQ(parts(), kRefused);
  of_tensors(Dtype::e4m3, Dtype::e5m2);
  EXPECT_EQ(parts(), kRefused);
  const auto refuses = [&](auto change) {
    of_tensors();
    change();
    EXPECT_EQ(parts(), kRefused);
  };
  refuses([&] { op.x.scales = {}; });
  refuses([&] { op.x.scales = shaped(Dtype::f32, {m, 1}); });
  refuses([&] { op.w.scales = shaped(Dtype::f32, {1, n, 1}); });
  refuses([&] { op.w.codes.extent[0] = 2; });
  refuses([&] { op.w.codes.rank = 2; });
}

TEST_F(SplitTable, ShapesThatItLacksAreNamed) {
  n = 7169;
  of_tensors();
  EXPECT_EQ(parts(),
            "q: sum.split: found table, which has no N x K of M x N x K 64 x 7169 x 36864; "
            "sum.split=auto finds the parts from an output");
  n = 7168;
  m = 66;
  of_blocks();
  EXPECT_EQ(parts(),
            "q: sum.split: found table, in which the library has no product of M x N x K 66 x 7168 "
            "x 36864")
      << "of rows that 4 does not divide";
}

TEST_F(SplitTable, EachMachineHasItsOwn) {
  n = 256;
  k = 7168;
  struct Row {
    Index m;
    Dtype out;
    int promote;
    const char *h200, *h100;
  };
  // The live products of an H100 that an H200's table had wrong.
  for (const Row& row : {Row{384, Dtype::bf16, 0, "4", "3"}, Row{768, Dtype::f32, 0, "2", "1"},
                         Row{768, Dtype::f32, 4, "2", "1"}, Row{1024, Dtype::f32, 0, "2", "1"},
                         Row{1024, Dtype::f32, 4, "2", "1"}}) {
    m = row.m;
    row.out == Dtype::bf16 ? plain(Dtype::bf16, Dtype::bf16) : of_tensors();
    set = {};
    EXPECT_EQ(parts(row.out, row.promote), row.h200) << "the default";
    set.set("sum.machine", "h200");
    EXPECT_EQ(parts(row.out, row.promote), row.h200) << row.m;
    set.set("sum.machine", "h100");
    EXPECT_EQ(parts(row.out, row.promote), row.h100) << row.m;
  }
  set.set("sum.machine", "h800");
  EXPECT_THROW(split_by_table("q", op, set), Error);
}

TEST_F(SplitTable, ItsVerdictSaysWhoseItIs) {
  EXPECT_EQ(split_table_note(set), "");
  set.set("sum.split", "table");
  EXPECT_EQ(split_table_note(set),
            "K is split by the table of cuBLASLt 13.1.0 on an H200; sum.machine=h100 or h200 "
            "chooses one");
  set.set("sum.machine", "h100");
  EXPECT_EQ(split_table_note(set), "") << "said by the caller";
}

TEST(SplitTableWish, LeavesNothingForTheSum) {
  Parameters set;
  set.set("sum", "h200_wgmma_fast");
  set.set("sum.split", "table");
  set.set("sum.machine", "h100");
  EXPECT_EQ(sum_from(without_split_table(set), OperandKind::bf16).split, 1);
  set.set("sum.split", "2");
  EXPECT_THROW(wants_split_table(set), Error) << "nothing would read sum.machine";
}

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
  if ((layer.kind == fp8_blockwise || layer.kind == fp8_blockwise_f32) && m % 4 != 0)
    return std::nullopt;
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
      for (const Index m : rows)
        ASSERT_EQ(library_parts(table.machine, layer.kind, m, layer.n, layer.k),
                  walked(table, layer, m))
            << static_cast<int>(layer.kind) << " " << m << " x " << layer.n << " x " << layer.k;
    }
}

TEST(LibrarySplits, WhatIsNotListedIsOnePart) {
  for (const Table& table : kTables) {
    int whole = 0;
    for (const Shape& shape : table.asked) {
      EXPECT_TRUE(library_was_asked(table.machine, shape.n, shape.k));
      bool listed = false;
      for (const Layer& layer : table.layers)
        listed = listed || (layer.kind == bf16 && layer.n == shape.n && layer.k == shape.k);
      if (listed) continue;
      ++whole;
      for (const Index m : {1, 5, 4096, 131072})
        EXPECT_EQ(library_parts(table.machine, bf16, m, shape.n, shape.k), 1);
    }
    EXPECT_GT(whole, 0);
  }
}

TEST(LibrarySplits, WhatWasNotAskedIsNotKnown) {
  EXPECT_FALSE(library_was_asked(LibraryMachine::h200, 128, 2049));
  EXPECT_FALSE(library_was_asked(LibraryMachine::h200, 2048, 128)) << "N x K";
  EXPECT_EQ(library_parts(LibraryMachine::h200, bf16, 128, 129, 2048), std::nullopt);
  for (const Index m : {Index{-1}, Index{0}, Index{131073}})
    EXPECT_EQ(library_parts(LibraryMachine::h200, bf16, m, 128, 2048), std::nullopt) << m;
  EXPECT_NE(library_parts(LibraryMachine::h200, bf16, 131072, 128, 2048), std::nullopt);
  for (const LibraryProduct kind : {fp8_blockwise, fp8_blockwise_f32}) {
    EXPECT_EQ(library_parts(LibraryMachine::h200, kind, 4095, 32768, 512), std::nullopt)
        << "4 does not divide 4095";
    EXPECT_NE(library_parts(LibraryMachine::h200, kind, 4096, 32768, 512), std::nullopt);
  }
  EXPECT_NE(library_parts(LibraryMachine::h200, fp8_fast, 4095, 32768, 512), std::nullopt);
}

TEST(LibrarySplits, MachinesHaveNames) {
  for (const Table& table : kTables)
    EXPECT_EQ(library_machine_named(name_of(table.machine)), table.machine);
  EXPECT_EQ(library_of(LibraryMachine::h100), "cuBLASLt 13.1.0 on an H100");
  EXPECT_THROW(library_machine_named("H100"), Error);
}

}  // namespace
}  // namespace mxo::split_table_test
