// A linear layer and its gradients: the steps that they are made of.
#include "tests/ops/linear_calls.h"

namespace mxo {
namespace {

struct LinearSteps : LinearCalls {};

TEST_F(LinearSteps, OfCodesIsTwoQuantisedFactors) {
  GroupedLinear op = call("mxfp8_rceil");
  EXPECT_EQ(said(op), "");
  EXPECT_EQ(recorder.steps,
            (Steps{"quantize x bf16 [96, 64] -> #1 e4m3 [96, 64] * #2 e8m0 [96, 2] of 1x32",
                   "quantize w bf16 [2, 32, 64] -> #3 e4m3 [2, 32, 64] * #4 e8m0 [2, 32, 2] of "
                   "1x32",
                   "grouped_matmul #1 e4m3 [96, 64] * #2 e8m0 [96, 2] of 1x32, #3 e4m3 [2, 32, 64] "
                   "* #4 e8m0 [2, 32, 2] of 1x32, exact -> y bf16 [96, 32]"}));
  op = call_of_codes();
  op.bias = bias.operand();
  EXPECT_EQ(said(op), "");
  ASSERT_EQ(recorder.steps.size(), 3u);
  EXPECT_TRUE(recorder.steps[1].starts_with(
      "grouped_matmul codes e4m3 [96, 64] * scales e8m0 [96, 2] of 1x32, #"));
  EXPECT_EQ(recorder.steps[2], "add_bias y bf16 [96, 32], bias f32 [32] -> y bf16 [96, 32]");
  op.y = {};
  EXPECT_EQ(said(op), "");
  EXPECT_EQ(recorder.steps, Steps{}) << "the gradients quantise along other axes";
}

TEST_F(LinearSteps, OfBf16KeepsWhatItRounded) {
  Tensor f32(Dtype::f32, {96, 64});
  recorder.names[f32.data()] = "f32";
  GroupedLinear op = call("bf16");
  op.x = f32.operand();
  op.y = {};
  op.bias = bias.operand();
  const SavedLinear saved = grouped_linear(recorder, op);
  EXPECT_EQ(recorder.steps, (Steps{"cast f32 f32 [96, 64] -> #1 bf16 [96, 64]"}));
  EXPECT_TRUE(saved.x_bf16.given());
  EXPECT_FALSE(saved.w_bf16.given());

  recorder.steps.clear();
  grouped_linear_backward(recorder, saved, {dy.operand(), {}, dw.result(), {}});
  EXPECT_EQ(recorder.steps,
            (Steps{"grouped_matmul_wgrad dy bf16 [96, 32], #1 bf16 [96, 64] by ends i32 [2], exact "
                   "-> dw f32 [2, 32, 64]"}));

  Tensor wide_w(Dtype::f32, {2, 32, 64});
  op = call("bf16");
  op.w = wide_w.operand();
  const SavedLinear of_w = grouped_linear(recorder, op);
  recorder.steps.clear();
  grouped_linear_backward(recorder, of_w, {dy.operand(), dx.result(), {}, {}});
  EXPECT_EQ(recorder.steps,
            (Steps{"grouped_matmul dy bf16 [96, 32], #2 bf16 [2, 64, 32] by steps, exact -> dx "
                   "bf16 [96, 64]"}));
}

TEST_F(LinearSteps, SavesNoCodes) {
  const SavedLinear saved = grouped_linear(recorder, call());
  EXPECT_FALSE(saved.x_bf16.given());
  EXPECT_FALSE(saved.w_bf16.given());
}

TEST_F(LinearSteps, ContractsWholeBlocksOfTokens) {
  set_ends(32, 64);
  Tensor longer(Dtype::bf16, {100, 64}), dlonger(Dtype::bf16, {100, 32});
  recorder.names[longer.data()] = "longer";
  recorder.names[dlonger.data()] = "dlonger";
  GroupedLinear op = call();
  op.x = longer.operand();
  EXPECT_EQ(said(op, {dlonger.operand(), {}, dw.result(), {}}), "");
  ASSERT_EQ(recorder.steps.size(), 3u);
  EXPECT_TRUE(recorder.steps[0].starts_with("quantize dlonger bf16 [96, 32] -> "));
  EXPECT_TRUE(recorder.steps[1].starts_with("quantize longer bf16 [96, 64] -> "));
  op.recipe = linear_recipe_named("fp8_rowwise");
  EXPECT_EQ(said(op, {dlonger.operand(), {}, dw.result(), {}}), "");
  EXPECT_TRUE(recorder.steps.at(0).starts_with("quantize dlonger bf16 [100, 32] by ends i32 [2]"));

  set_ends(33, 64);
  EXPECT_EQ(said(call(), {dy.operand(), {}, dw.result(), {}}),
            "grouped_linear: group_ends: entry 0 is 33, not a multiple of 32");
  EXPECT_EQ(said(call(), {dy.operand(), dx.result(), {}, {}}), "");
  EXPECT_EQ(said(call("mxfp8_rceil_wgrad_with_hp"), {dy.operand(), {}, dw.result(), {}}), "");
  op = call();
  op.padding = GroupPadding::alignment;
  EXPECT_EQ(said(op, {dy.operand(), {}, dw.result(), {}}), "");
}

TEST_F(LinearSteps, PadsBothSidesOfTheGradientOfTheWeight) {
  set_ends(33, 64);
  GroupedLinear op = call();
  op.padding = GroupPadding::alignment;
  op.wgrad_sum = kFmaChain;
  EXPECT_EQ(said(op, {dy.operand(), {}, dw.result(), {}}), "");
  EXPECT_EQ(
      recorder.steps,
      (Steps{"pad_groups x bf16 [96, 64] to 32 -> #1 bf16 [160, 64]",
             "pad_groups dy bf16 [96, 32] to 32 -> #4 bf16 [160, 32]",
             "quantize #4 bf16 [160, 32] -> #7 e4m3 [160, 32] * #8 e8m0 [5, 32] of 32x1",
             "quantize #1 bf16 [160, 64] -> #9 e4m3 [160, 64] * #10 e8m0 [5, 64] of 32x1",
             "grouped_matmul_wgrad #7 e4m3 [160, 32] * #8 e8m0 [5, 32] of 32x1, #9 e4m3 "
             "[160, 64] * #10 e8m0 [5, 64] of 32x1 by #3 i32 [2], fma_chain -> dw f32 [2, 32, "
             "64]"}));
}

TEST_F(LinearSteps, ContractsDequantisedCodes) {
  EXPECT_EQ(said(call_of_codes(), {dy.operand(), {}, dw.result(), dbias.result()}), "");
  EXPECT_EQ(recorder.steps,
            (Steps{"dequantize codes e4m3 [96, 64] * scales e8m0 [96, 2] of 1x32 -> #1 bf16 [96, "
                   "64]",
                   "grouped_matmul_wgrad dy bf16 [96, 32], #1 bf16 [96, 64] by ends i32 [2], exact "
                   "-> dw f32 [2, 32, 64]",
                   "column_sum dy bf16 [96, 32] -> dbias f32 [2, 32]"}));
}

TEST_F(LinearSteps, GradientOfXScalesTheWeightAlongN) {
  GroupedLinear op = call();
  op.sum = kFmaChain;
  EXPECT_EQ(said(op, {dy.operand(), dx.result(), {}, {}}), "");
  EXPECT_EQ(recorder.steps,
            (Steps{"quantize dy bf16 [96, 32] -> #1 e4m3 [96, 32] * #2 e8m0 [96, 1] of 1x32",
                   "quantize w bf16 [2, 64, 32] by steps -> #3 e4m3 [2, 64, 32] * #4 e8m0 [2, 64, "
                   "1] of 1x32",
                   "grouped_matmul #1 e4m3 [96, 32] * #2 e8m0 [96, 1] of 1x32, #3 e4m3 [2, 64, 32] "
                   "* #4 e8m0 [2, 64, 1] of 1x32, fma_chain -> dx bf16 [96, 64]"}));
}

}  // namespace
}  // namespace mxo
