// The catalogue's grouped products: sides, blocks and sums that reach the backend.
#include "ops/grouped_matmul.h"

#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

/// 64 rows of K 256 by two matrices of N 130.
struct ProductEntry : testing::Test {
  EntryCalls<GroupedMatmul> call{"grouped_matmul"};

  ProductEntry() { call.numbers("group_ends", {32, 64}); }
  void plain() {
    call.add("x", Dtype::bf16, {64, 256});
    call.add("w", Dtype::f16, {2, 130, 256});
  }
  void coded(Dtype x, std::vector<Index> x_scales, Dtype w, std::vector<Index> w_scales) {
    call.add("x.codes", Dtype::u8, {64, 256});
    call.add("w.codes", Dtype::u8, {2, 130, 256});
    call.add("x.scales", x, std::move(x_scales));
    call.add("w.scales", w, std::move(w_scales));
  }
  void blocks_of_32() { coded(Dtype::u8, {64, 8}, Dtype::e8m0, {2, 130, 8}); }
  void blocks_of_128() { coded(Dtype::f32, {64, 2}, Dtype::i32, {2, 2, 2}); }
};

TEST_F(ProductEntry, CodesComeWithTheirScales) {
  blocks_of_32();
  const GroupedMatmul& op = call.op({{"format_x", "e5m2"}});
  EXPECT_EQ(call.told(op.x.codes), "x.codes e5m2 [64, 256]");
  EXPECT_EQ(call.told(op.x.scales), "x.scales e8m0 [64, 8]");
  EXPECT_EQ(op.x.block, kMxColumns);
  EXPECT_EQ(call.told(op.w.codes), "w.codes e4m3 [2, 130, 256]");
  EXPECT_EQ(call.told(op.w.scales), "w.scales e8m0 [2, 130, 8]");
  blocks_of_128();
  const GroupedMatmul& other = call.op({{"format_w", "e5m2"}});
  EXPECT_EQ(call.told(other.x.scales), "x.scales f32 [64, 2]");
  EXPECT_EQ(other.x.block, kRowBlock);
  EXPECT_EQ(call.told(other.w.codes), "w.codes e5m2 [2, 130, 256]");
  EXPECT_EQ(call.told(other.w.scales), "w.scales f32 [2, 2, 2]") << "bits in i32";
  EXPECT_EQ(other.w.block, kSquareBlock);
  EXPECT_EQ(call.said({{"block_w", "1x64"}}),
            "grouped_matmul: w.scales: found f32 [2, 2, 2], needs [2, 130, 4], one for each block "
            "1x64 of e4m3 [2, 130, 256]");
}

TEST_F(ProductEntry, RanksAreRefusedBeforeShapesRestOnThem) {
  plain();
  call.homes.emplace("y", Tensor(Dtype::bf16, {64, 130}));
  EXPECT_EQ(call.said_of("x", Dtype::bf16, {64}),
            "grouped_matmul: x: found bf16 [64], needs rank 2");
  EXPECT_EQ(call.said_of("w", Dtype::bf16, {2, 256}),
            "grouped_matmul: w: found bf16 [2, 256], needs rank 3");
  call.in.clear();
  call.numbers("group_ends", {32, 64});
  blocks_of_32();
  EXPECT_EQ(call.said_of("x.codes", Dtype::u8, {64}),
            "grouped_matmul: x.codes: found e4m3 [64], needs rank 2");
  EXPECT_EQ(call.said_of("w.codes", Dtype::u8, {130, 256}),
            "grouped_matmul: w.codes: found e4m3 [130, 256], needs rank 3");
}

TEST_F(ProductEntry, SumsAreThoseOfTheKindOfOperands) {
  const Settings of_blocks = {{"sum", "b200_mxf8f6f4"}};
  const auto folded = [&](const char* fold) {
    return call.said({{"sum", "b200_mxf8f6f4"}, {"sum.fold", fold}});
  };
  const std::string as_codes =
      "sum: b200_mxf8f6f4: found operands of kind fp8 (e4m3, e5m2), needs one of mx";
  blocks_of_32();
  EXPECT_EQ(call.said(of_blocks), "");
  EXPECT_EQ(folded("term"), "");
  EXPECT_EQ(folded("x_then_w"), as_codes) << "scales are none of its business";
  blocks_of_128();
  EXPECT_EQ(call.said(of_blocks), as_codes);
  EXPECT_EQ(call.said({{"sum", "ada_mma"}}), "");
  coded(Dtype::u8, {64, 8}, Dtype::f32, {2, 2, 2});
  EXPECT_EQ(call.said(of_blocks), as_codes) << "w in f32";
  EXPECT_EQ(call.said({{"sum", "ada_mma"}}), "");
  coded(Dtype::f32, {64, 2}, Dtype::u8, {2, 130, 8});
  EXPECT_EQ(call.said(of_blocks), as_codes) << "x in f32";
  EXPECT_EQ(call.said({{"sum", "ada_mma"}}), "");
}

TEST_F(ProductEntry, PartsAreThoseOfTheTable) {
  call.add("x", Dtype::bf16, {8, 4096});
  call.add("w", Dtype::bf16, {1, 128, 4096});
  call.numbers("group_ends", {8});
  EXPECT_EQ(call.op({{"sum", "h200_wgmma_fast"}}).sum.split, 1);
  EXPECT_EQ(call.op({{"sum", "h200_wgmma_fast"}, {"sum.split", "2"}}).sum.split, 2);
  EXPECT_EQ(call.op({{"sum", "h200_wgmma_fast"}, {"sum.split", "table"}}).sum.split, 3);
  EXPECT_EQ(call.said({{"sum.split", "auto"}}),
            "grouped_matmul: y: missing; sum.split=auto needs the output to explain");
}

/// Two groups of 64 rows, of N 130 by K 200.
struct GradientEntry : testing::Test {
  EntryCalls<GroupedMatmulWgrad> call{"grouped_matmul_wgrad"};

  GradientEntry() { call.numbers("group_ends", {32, 64}); }
  void coded() {
    call.add("dy.codes", Dtype::u8, {64, 130});
    call.add("x.codes", Dtype::u8, {64, 200});
    call.add("dy.scales", Dtype::u8, {2, 130});
    call.add("x.scales", Dtype::u8, {2, 200});
  }
};

TEST_F(GradientEntry, SidesReachTheBackend) {
  call.add("dy", Dtype::bf16, {64, 130});
  call.add("x", Dtype::f32, {64, 200});
  const GroupedMatmulWgrad& op = call.op();
  EXPECT_EQ(call.told(op.dy.codes), "dy bf16 [64, 130]");
  EXPECT_EQ(call.told(op.x.codes), "x f32 [64, 200]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.made(), "dw bf16 [2, 130, 200]");
  EXPECT_EQ(op.sum, kExact);
  EXPECT_EQ(call.op({{"sum", "fma_chain"}}).sum, kFmaChain);
  call.homes.emplace("dw", Tensor(Dtype::bf16, {2, 130, 200}));
  EXPECT_EQ(call.said_of("dy", Dtype::bf16, {64}),
            "grouped_matmul_wgrad: dy: found bf16 [64], needs rank 2");
  EXPECT_EQ(call.said_of("x", Dtype::bf16, {64}),
            "grouped_matmul_wgrad: x: found bf16 [64], needs rank 2");
  EXPECT_EQ(call.said_of("group_ends", Dtype::i32, {1, 2}),
            "grouped_matmul_wgrad: group_ends: found i32 [1, 2], needs rank 1");
}

TEST_F(GradientEntry, BlocksBeginAnewAtEveryGroup) {
  coded();
  const GroupedMatmulWgrad& op = call.op({{"format_dy", "e5m2"}, {"out", "f32"}});
  EXPECT_EQ(call.told(op.dy.codes), "dy.codes e5m2 [64, 130]");
  EXPECT_EQ(call.told(op.x.codes), "x.codes e4m3 [64, 200]");
  EXPECT_EQ(op.dy.block, kMxRows);
  EXPECT_EQ(call.made(), "dw f32 [2, 130, 200]");
  EXPECT_EQ(call.op({{"format_x", "e5m2"}}).x.codes.dtype, Dtype::e5m2);
  EXPECT_EQ(call.op({{"block_x", "Rx1"}}).x.block, kWholeColumn) << "one for each group";
  EXPECT_EQ(call.op({{"block_dy", "Rx1"}}).dy.block, kWholeColumn);
}

TEST_F(GradientEntry, SplitsAreFoundForAnOutput) {
  coded();
  call.add("y", Dtype::bf16, {2, 130, 200});
  call.said({{"sum", "h200_wgmma_fast"}, {"sum.split", "auto"}});
  EXPECT_EQ(call.made(), "splits i32 [16]") << "all give the zeros that nothing computes";
}

}  // namespace
}  // namespace mxo
