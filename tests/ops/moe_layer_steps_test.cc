// A layer of experts, forward: the steps that it is made of.
#include <algorithm>

#include "tests/ops/moe_layer_calls.h"

namespace mxo {
namespace {

struct MoeForward : MoeCalls {};

TEST_F(MoeForward, WeighsActivationsAndAddsASharedExpert) {
  share();
  op.pipeline = MoePipeline::bf16;
  op.scores = MoeScores::swiglu;
  op.router_logits = Dtype::bf16;
  op.logits_bias = logits_bias.operand();
  op.w1_bias = w1_bias.operand();
  op.second_bias = SecondBias::plain;
  op.w2_bias = w2_bias.operand();
  op.gate.halves = Halves::interleaved;
  op.alignment = 1;
  forward();
  EXPECT_EQ(
      recorder.steps,
      (Steps{
          "grouped_matmul x bf16 [3, 256], router bf16 [1, 2, 256] by [3], exact -> #2 f32 [3, 2]",
          "add_bias #2 f32 [3, 2], logits_bias f32 [2] -> #1 bf16 [3, 2]",
          "= logits bf16 [3, 2]",
          "route logits bf16 [3, 2], none, score 0, 1/1, times 1.000000, groups 0, others 0 -> #4 "
          "i32 [3, 2], #5 f32 [3, 2], #6 i32 [2]",
          "= experts i32 [3, 2]",
          "= weights f32 [3, 2]",
          "permute_indices to 16",
          "permute #10 bf16 [48, 256] by [0 1 2 16 17 18] -> #11 bf16 [6, 256]",
          "= dispatched bf16 [6, 256]",
          "= permuted bf16 [48, 256]",
          "unpermute weights f32 [6, 1] by [0 3 4 1 2 5] -> #12 f32 [6, 1]",
          "zero 24576 of #14",
          "zero 24576 of #15",
          "grouped_matmul permuted bf16 [48, 256], w1 bf16 [2, 256, 256] by [16 32], exact -> #15 "
          "bf16 [48, 256]",
          "add_bias #15 bf16 [48, 256], w1_bias bf16 [2, 256] -> #15 bf16 [48, 256]",
          "swiglu #15 bf16 [48, 256], #13 f32 [48], of another gate -> #16 bf16 [48, 128]",
          "= h bf16 [48, 256]",
          "= act bf16 [48, 128]",
          "grouped_matmul act bf16 [48, 128], w2 bf16 [2, 256, 128] by [16 32], exact -> #14 bf16 "
          "[48, 256]",
          "add_bias #14 bf16 [48, 256], w2_bias bf16 [2, 256] -> #14 bf16 [48, 256]",
          "= expert_out bf16 [48, 256]",
          "combine_rows #18 bf16 [6, 256] by [0 3 4 1 2 5], none, steps 0 -> #17 bf16 [3, 256]",
          "= combined bf16 [3, 256]",
          "grouped_matmul x bf16 [3, 256], sw1 bf16 [1, 128, 256] by [3], exact -> #20 bf16 [3, "
          "128]",
          "swiglu #20 bf16 [3, 128], none, of another gate -> #21 bf16 [3, 64]",
          "grouped_matmul #21 bf16 [3, 64], sw2 bf16 [1, 256, 64] by [3], exact -> combined+1536 "
          "bf16 [3, 256]",
          "combine_rows combined bf16 [6, 256] by [0 3 1 4 2 5], none, steps 0 -> y bf16 [3, "
          "256]"}));
}

TEST_F(MoeForward, WeighsWhatItSends) {
  op.pipeline = MoePipeline::fp8_blockwise;
  op.recipe = linear_recipe_named("fp8_blockwise");
  op.scores = MoeScores::input_bf16;
  op.placement = Placement::unfused;
  forward();
  EXPECT_EQ(
      recorder.steps,
      (Steps{
          "grouped_matmul x bf16 [3, 256], router bf16 [1, 2, 256] by [3], exact -> #1 f32 [3, 2]",
          "= logits f32 [3, 2]",
          "route logits f32 [3, 2], none, score 0, 1/1, times 1.000000, groups 0, others 0 -> #3 "
          "i32 [3, 2], #4 f32 [3, 2], #5 i32 [2]",
          "= experts i32 [3, 2]",
          "= weights f32 [3, 2]",
          "permute_indices to 128",
          "cast weights f32 [3, 2] -> #9 bf16 [3, 2]",
          "cast #9 bf16 [3, 2] -> #10 f32 [3, 2]",
          "combine_rows_backward none by [0 3 4 1 2 5], #10 f32 [3, 2], x bf16 [3, 256] -> #11 "
          "bf16 [6, 256], none",
          "quantize #11 bf16 [6, 256] -> #12 e4m3 [6, 256] * #13 f32 [6, 2] of 1x128",
          "= quantized.codes e4m3 [6, 256]",
          "= quantized.scales f32 [6, 2]",
          "permute quantized.codes e4m3 [6, 256] by [0 1 2 -1 x 125 3 4 5 -1 x 253] -> #14 e4m3 "
          "[384, 256]",
          "permute quantized.scales f32 [6, 2] by [0 1 2 -1 x 125 3 4 5 -1 x 253] -> #15 f32 [384, "
          "2]",
          "permute #14 e4m3 [384, 256] by [0 1 2 128 129 130] -> #16 e4m3 [6, 256]",
          "= dispatched.codes e4m3 [6, 256]",
          "= permuted.codes e4m3 [384, 256]",
          "permute #15 f32 [384, 2] by [0 1 2 128 129 130] -> #17 f32 [6, 2]",
          "= dispatched.scales f32 [6, 2]",
          "= permuted.scales f32 [384, 2]",
          "zero 196608 of #18",
          "zero 196608 of #19",
          "quantize w1 bf16 [2, 256, 256] -> #20 e4m3 [2, 256, 256] * #21 f32 [2, 2, 2] of 128x128",
          "grouped_matmul permuted.codes e4m3 [384, 256] * permuted.scales f32 [384, 2] of 1x128, "
          "#20 e4m3 [2, 256, 256] * #21 f32 [2, 2, 2] of 128x128 by [128 256], exact -> #19 bf16 "
          "[384, 256]",
          "swiglu #19 bf16 [384, 256], none -> #22 bf16 [384, 128]",
          "= h bf16 [384, 256]",
          "= act bf16 [384, 128]",
          "quantize act bf16 [384, 128] -> #23 e4m3 [384, 128] * #24 f32 [384, 1] of 1x128",
          "= act.codes e4m3 [384, 128]",
          "= act.scales f32 [384, 1]",
          "quantize w2 bf16 [2, 256, 128] -> #25 e4m3 [2, 256, 128] * #26 f32 [2, 2, 1] of 128x128",
          "grouped_matmul act.codes e4m3 [384, 128] * act.scales f32 [384, 1] of 1x128, #25 e4m3 "
          "[2, 256, 128] * #26 f32 [2, 2, 1] of 128x128 by [128 256], exact -> #18 bf16 [384, 256]",
          "= expert_out bf16 [384, 256]",
          "combine_rows #28 bf16 [6, 256] by [0 3 4 1 2 5], none, steps 0 -> y bf16 [3, 256]",
          "= combined: y bf16 [3, 256]"}));
}

TEST_F(MoeForward, MovesCodesFromEndToEnd) {
  op.pipeline = MoePipeline::flow;
  op.scores = MoeScores::swiglu;
  op.placement = Placement::unfused;
  forward();
  EXPECT_EQ(
      recorder.steps,
      (Steps{
          "grouped_matmul x bf16 [3, 256], router bf16 [1, 2, 256] by [3], exact -> #1 f32 [3, 2]",
          "= logits f32 [3, 2]",
          "route logits f32 [3, 2], none, score 0, 1/1, times 1.000000, groups 0, others 0 -> #3 "
          "i32 [3, 2], #4 f32 [3, 2], #5 i32 [2]",
          "= experts i32 [3, 2]",
          "= weights f32 [3, 2]",
          "permute_indices to 128",
          "quantize x bf16 [3, 256] -> #9 e4m3 [3, 256] * #10 f32 [3, 2] of 1x128",
          "permute #9 e4m3 [3, 256] by [0 1 2 0 1 2] -> #11 e4m3 [6, 256]",
          "permute #11 e4m3 [6, 256] by [0 1 2 -1 x 125 3 4 5 -1 x 253] -> #12 e4m3 [384, 256]",
          "permute #10 f32 [3, 2] by [0 1 2 0 1 2] -> #13 f32 [6, 2]",
          "permute #13 f32 [6, 2] by [0 1 2 -1 x 125 3 4 5 -1 x 253] -> #14 f32 [384, 2]",
          "permute #12 e4m3 [384, 256] by [0 1 2 128 129 130] -> #15 e4m3 [6, 256]",
          "= dispatched.codes e4m3 [6, 256]",
          "= permuted.codes e4m3 [384, 256]",
          "permute #14 f32 [384, 2] by [0 1 2 128 129 130] -> #16 f32 [6, 2]",
          "= dispatched.scales f32 [6, 2]",
          "= permuted.scales f32 [384, 2]",
          "unpermute weights f32 [6, 1] by [0 3 4 1 2 5] -> #17 f32 [6, 1]",
          "permute #17 f32 [6, 1] by [0 1 2 -1 x 125 3 4 5 -1 x 253] -> #18 f32 [384, 1]",
          "zero 196608 of #19",
          "zero 196608 of #20",
          "quantize w1 bf16 [2, 256, 256] -> #21 e4m3 [2, 256, 256] * #22 f32 [2, 2, 2] of 128x128",
          "grouped_matmul permuted.codes e4m3 [384, 256] * permuted.scales f32 [384, 2] of 1x128, "
          "#21 e4m3 [2, 256, 256] * #22 f32 [2, 2, 2] of 128x128 by [128 256], exact -> #20 bf16 "
          "[384, 256]",
          "swiglu_quantize #20 bf16 [384, 256], #18 f32 [384] -> #23 e4m3 [384, 128] * #24 f32 "
          "[384, 1] of 1x128",
          "= h bf16 [384, 256]",
          "= act.codes e4m3 [384, 128]",
          "= act.scales f32 [384, 1]",
          "quantize w2 bf16 [2, 256, 128] -> #25 e4m3 [2, 256, 128] * #26 f32 [2, 2, 1] of 128x128",
          "grouped_matmul act.codes e4m3 [384, 128] * act.scales f32 [384, 1] of 1x128, #25 e4m3 "
          "[2, 256, 128] * #26 f32 [2, 2, 1] of 128x128 by [128 256], exact -> #19 bf16 [384, 256]",
          "= expert_out bf16 [384, 256]",
          "combine_rows #28 bf16 [6, 256] by [0 3 4 1 2 5], none, steps 0 -> y bf16 [3, 256]",
          "= combined: y bf16 [3, 256]"}));
}

TEST_F(MoeForward, SendsTheCodesThatItShows) {
  op.pipeline = MoePipeline::fp8_blockwise;
  op.recipe = linear_recipe_named("fp8_blockwise");
  forward();
  const auto made = std::find(recorder.steps.begin(), recorder.steps.end(),
                              "quantize x bf16 [3, 256] -> #9 e4m3 [3, 256] * #10 f32 [3, 2] of "
                              "1x128");
  ASSERT_NE(made, recorder.steps.end());
  EXPECT_EQ(made[1], "= quantized.codes e4m3 [3, 256]");
  EXPECT_EQ(made[2], "= quantized.scales f32 [3, 2]");
  EXPECT_TRUE(made[3].starts_with("permute ")) << "and quantises no more";
}

TEST_F(MoeForward, IsTheSameUnseen) {
  share();
  forward();
  Steps seen;
  for (const std::string& step : recorder.steps) {
    const bool shows = step.starts_with("= ") || step.starts_with("permute ");
    if (!shows) seen.push_back(step.substr(0, step.find(' ')));
  }
  op.observe = {};
  forward();
  Steps unseen;
  for (const std::string& step : recorder.steps) unseen.push_back(step.substr(0, step.find(' ')));
  EXPECT_EQ(seen, unseen);
}

TEST_F(MoeForward, KeepsWhatBackwardReads) {
  const auto kept = [&](MoePipeline pipeline, MoeScores scores, bool recompute) {
    op.pipeline = pipeline;
    op.scores = scores;
    op.recompute = recompute;
    const SavedMoeLayer saved = forward();
    EXPECT_TRUE(saved.logits.given() && saved.chosen.given() && saved.weights.given());
    EXPECT_TRUE(saved.u.given() && saved.returned.given());
    std::string names;
    if (saved.row_weights.given()) names += "row_weights ";
    if (saved.input_weights.given()) names += "input_weights ";
    if (saved.h.given()) names += "h ";
    if (saved.act.given()) names += "act ";
    if (saved.act_codes.given()) names += "codes ";
    return names;
  };
  using P = MoePipeline;
  using S = MoeScores;
  EXPECT_EQ(kept(P::bf16, S::combine, false), "h act ");
  EXPECT_EQ(kept(P::bf16, S::combine, true), "");
  EXPECT_EQ(kept(P::flow, S::swiglu, false), "row_weights h codes ");
  EXPECT_EQ(kept(P::flow, S::swiglu, true), "row_weights ");
  EXPECT_EQ(kept(P::mxfp8, S::input, true), "input_weights ");
  EXPECT_EQ(kept(P::mxfp8, S::input_bf16, true), "input_weights ");
  EXPECT_EQ(kept(P::bf16, S::first_product, true), "row_weights ");
  EXPECT_EQ(kept(P::bf16, S::second_product, true), "row_weights ");
}

}  // namespace
}  // namespace mxo
