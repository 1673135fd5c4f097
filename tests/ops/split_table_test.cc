// Which product of the library an operator is, for the parts that it is cut into.
#include "ops/catalogue/split_table.h"

#include <gtest/gtest.h>

#include "formats/error.h"
#include "ops/library_splits.h"

namespace mxo {
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
    try {
      return std::to_string(split_by_table("q", op, set));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::unsupported);
      return error.what();
    }
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
  of_tensors();
  op.x.scales = {};
  EXPECT_EQ(parts(), kRefused);
  of_tensors();
  op.x.scales = shaped(Dtype::f32, {m, 1});
  EXPECT_EQ(parts(), kRefused);
  of_tensors();
  op.w.scales = shaped(Dtype::f32, {1, n, 1});
  EXPECT_EQ(parts(), kRefused);
  of_tensors();
  op.w.codes.extent[0] = 2;
  EXPECT_EQ(parts(), kRefused);
  of_tensors();
  op.w.codes.rank = 2;
  EXPECT_EQ(parts(), kRefused);
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

}  // namespace
}  // namespace mxo
