// The catalogue's dequantize: types of scales, and blocks that their shape tells.
#include "ops/quantize.h"

#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

struct DequantizeEntry : testing::Test {
  EntryCalls<Dequantize> call{"dequantize"};

  /// Codes of 64 x 256 with these scales.
  void scales(Dtype dtype, std::vector<Index> shape) {
    call.add("codes", Dtype::u8, {64, 256});
    call.add("scales", dtype, std::move(shape));
  }
};

TEST_F(DequantizeEntry, BlocksAreThoseOfTheShape) {
  scales(Dtype::f32, {64, 2});
  EXPECT_EQ(call.op().from.block, kRowBlock);
  scales(Dtype::f32, {1, 2});
  EXPECT_EQ(call.op().from.block, kSquareBlock);
  scales(Dtype::f32, {64, 4});
  EXPECT_EQ(call.op({{"block", "1x64"}}).from.block, (BlockExtents{1, 64}));
  EXPECT_EQ(call.said({{"block", "1x128"}}),
            "dequantize: scales: found f32 [64, 4], needs [64, 2]");
  scales(Dtype::f32, {64, 3});
  EXPECT_TRUE(call.said().starts_with("dequantize: scales: found f32 [64, 3], needs [64, 2] for"));
}

TEST_F(DequantizeEntry, GroupsNameTheirBlock) {
  scales(Dtype::f32, {2, 2});
  call.numbers("group_ends", {32, 64});
  const Dequantize& op = call.op({{"block", "128x128"}});
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(op.from.block, kSquareBlock);
  scales(Dtype::f32, {64, 2});
  EXPECT_EQ(call.said(),
            "dequantize: group_ends: found with block 1x32, needs blocks of more than one row");
}

TEST_F(DequantizeEntry, CodesMayBeTurned) {
  call.add("codes", Dtype::u8, {256, 64});
  call.add("scales", Dtype::u8, {256, 2});
  const Dequantize& op = call.op({{"transpose", "true"}, {"block", "32x1"}});
  EXPECT_EQ(call.told(op.from.codes), "codes e4m3 [64, 256]");
  EXPECT_EQ(op.from.codes.stride[0], 1);
  EXPECT_EQ(call.told(op.from.scales), "scales e8m0 [2, 256]");
  EXPECT_EQ(op.from.scales.stride[0], 1);
  EXPECT_EQ(call.told(op.x), "x bf16 [64, 256]");
  call.add("codes", Dtype::u8, {3, 256, 64});
  call.add("scales", Dtype::u8, {3, 256, 2});
  EXPECT_EQ(call.told(call.op({{"transpose", "true"}, {"block", "32x1"}}).x),
            "x bf16 [3, 64, 256]");
  scales(Dtype::f32, {64, 2});
  EXPECT_EQ(call.said({{"transpose", "true"}}),
            "dequantize: scales: found f32 [2, 64], needs [256, 2]")
      << "of 1x32 unless named";
}

TEST_F(DequantizeEntry, VectorsAreRefusedInWords) {
  for (const char* turned : {"false", "true"}) {
    const Settings settings = {{"transpose", turned}, {"block", "32x1"}};
    scales(Dtype::u8, {64, 8});
    EXPECT_EQ(call.said_of("codes", Dtype::u8, {64}, settings),
              "dequantize: x: found bf16 [64], needs rank 2 to 4");
    EXPECT_EQ(call.said_of("scales", Dtype::u8, {64}, settings),
              "dequantize: scales: found e8m0 [64], needs [2, 256]");
  }
  call.add("codes", Dtype::u8, {256});
  call.add("scales", Dtype::f32, {7});
  EXPECT_EQ(call.said(), "dequantize: x: found bf16 [256], needs rank 2 to 4");
}

}  // namespace
}  // namespace mxo
