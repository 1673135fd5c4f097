// A linear layer and its gradients: the steps that they are made of.
#include "tests/ops/linear_calls.h"

namespace mxo {
namespace {

struct LinearSteps : LinearCalls {};

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

}  // namespace
}  // namespace mxo
