// The catalogue's fused_dot: operands and sums that reach the backend.
#include "ops/fused_dot.h"

#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

struct FusedDotEntry : testing::Test {
  EntryCalls<FusedDot> call{"fused_dot"};

  void operands(Dtype a, Dtype b) {
    call.add("a", a, {2, 3, 64});
    call.add("b", b, {2, 5, 64});
    call.add("c", Dtype::i32, {2, 3, 5});
  }
};

TEST_F(FusedDotEntry, OperandsReachTheBackend) {
  operands(Dtype::u16, Dtype::bf16);
  const FusedDot& op = call.op({{"sum", "h200_mma_sync"}});
  EXPECT_EQ(call.told(op.a), "a bf16 [2, 3, 64]") << "bits in u16";
  EXPECT_EQ(call.told(op.b), "b bf16 [2, 5, 64]");
  EXPECT_EQ(call.told(op.c), "c f32 [2, 3, 5]");
  EXPECT_FALSE(op.a_scales.given());
  EXPECT_FALSE(op.b_scales.given());
  EXPECT_EQ(op.sum, sum_named("h200_mma_sync", OperandKind::bf16));
  EXPECT_EQ(call.told(op.d), "d f32 [2, 3, 5]");
  EXPECT_EQ(call.op({{"sum", "h200_mma_sync"}, {"sum.bits", "20"}}).sum.bits, 20);
  operands(Dtype::f16, Dtype::f16);
  EXPECT_EQ(call.told(call.op({{"sum", "h200_mma_sync"}}).a), "a f16 [2, 3, 64]");
}

TEST_F(FusedDotEntry, ScalesMakeItOfBlocks) {
  operands(Dtype::u8, Dtype::u8);
  call.add("a.scales", Dtype::u8, {2, 3, 2});
  call.add("b.scales", Dtype::u8, {2, 5, 2});
  const Settings of_blocks = {{"sum", "b200_tcgen05"}};
  const FusedDot& op = call.op(of_blocks);
  EXPECT_EQ(call.told(op.a_scales), "a.scales e8m0 [2, 3, 2]");
  EXPECT_EQ(call.told(op.b_scales), "b.scales e8m0 [2, 5, 2]");
  EXPECT_EQ(op.sum, sum_named("b200_tcgen05", OperandKind::mx));
  EXPECT_EQ(call.said({{"sum", "b200_mxf8f6f4"}}), "");
  call.in.erase("a.scales");
  EXPECT_EQ(call.said({{"sum", "b200_mxf8f6f4"}}),
            "fused_dot: a.scales: missing, needs scales of both or of neither");
  call.in.erase("b.scales");
  EXPECT_EQ(call.op(of_blocks).sum, sum_named("b200_tcgen05", OperandKind::fp8));
  call.add("a.scales", Dtype::u8, {2, 3, 2});
  EXPECT_EQ(call.said({{"sum", "b200_mxf8f6f4"}}),
            "fused_dot: b.scales: missing, needs scales of both or of neither");
}

TEST_F(FusedDotEntry, AMachineIsNeeded) {
  operands(Dtype::bf16, Dtype::bf16);
  EXPECT_EQ(call.said(), "fused_dot: sum: found none, needs a machine of `mxo list sums`");
  EXPECT_EQ(call.said({{"sum", "h200_mma_sync"}, {"sum.split", "auto"}}),
            "fused_dot: sum.split: found auto, needs a number; grouped products search");
}

}  // namespace
}  // namespace mxo
