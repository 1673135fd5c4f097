// Gradients of a layer of experts: the steps that they are made of.
#include <algorithm>

#include "tests/ops/moe_layer_calls.h"

namespace mxo {
namespace {

struct MoeBackward : MoeCalls {};

TEST_F(MoeBackward, OfCodesComeAsCodes) {
  op.score = RouterScore::sigmoid;
  op.normalize = false;
  op.scale = 2.5f;
  op.top_k = 1;
  op.wgrad_sum = kFmaChain;
  op.format = Dtype::e4m3fnuz;
  back.drouter = drouter.result();
  back.dw1 = dw1.result();
  back.dw2 = dw2.result();
  EXPECT_EQ(
      backward(),
      (Steps{
          "= dcombined: dy bf16 [3, 256]",
          "combine_rows_backward #25 bf16 [3, 256] by [0 2 1], weights f32 [3, 1], dy bf16 [3, "
          "256] -> #28 bf16 [3, 256], #27 f32 [3, 1]",
          "quantize #28 bf16 [3, 256] -> #29 e4m3fnuz [3, 256] * #30 e8m0 [3, 8] of 1x32",
          "= dexpert_out.codes e4m3fnuz [96, 256]",
          "= dexpert_out.scales e8m0 [96, 8]",
          "zero 24576 of #33",
          "quantize w2 bf16 [2, 128, 256] by steps -> #34 e4m3fnuz [2, 128, 256] * #35 e8m0 [2, "
          "128, 8] of 1x32",
          "grouped_matmul dexpert_out.codes e4m3fnuz [96, 256] * dexpert_out.scales e8m0 [96, 8] "
          "of 1x32, #34 e4m3fnuz [2, 128, 256] * #35 e8m0 [2, 128, 8] of 1x32 by [32 64], exact -> "
          "#33 bf16 [96, 128]",
          "dequantize dexpert_out.codes e4m3fnuz [96, 256] * dexpert_out.scales e8m0 [96, 8] of "
          "1x32 -> #36 bf16 [96, 256]",
          "grouped_matmul_wgrad #36 bf16 [96, 256], act bf16 [96, 128] by [32 64], fma_chain -> "
          "dw2 f32 [2, 256, 128]",
          "= dact bf16 [96, 128]",
          "swiglu_backward h bf16 [96, 256], none, dact bf16 [96, 128] -> #37 bf16 [96, 256], none",
          "= dh bf16 [96, 256]",
          "zero 49152 of #39",
          "quantize dh bf16 [96, 256] -> #40 e4m3fnuz [96, 256] * #41 e8m0 [96, 8] of 1x32",
          "quantize w1 bf16 [2, 256, 256] by steps -> #42 e4m3fnuz [2, 256, 256] * #43 e8m0 [2, "
          "256, 8] of 1x32",
          "grouped_matmul #40 e4m3fnuz [96, 256] * #41 e8m0 [96, 8] of 1x32, #42 e4m3fnuz [2, 256, "
          "256] * #43 e8m0 [2, 256, 8] of 1x32 by [32 64], exact -> #39 bf16 [96, 256]",
          "dequantize permuted.codes e4m3fnuz [96, 256] * permuted.scales e8m0 [96, 8] of 1x32 -> "
          "#44 bf16 [96, 256]",
          "grouped_matmul_wgrad dh bf16 [96, 256], #44 bf16 [96, 256] by [32 64], fma_chain -> dw1 "
          "f32 [2, 256, 256]",
          "= dpermuted bf16 [96, 256]",
          "combine_rows #45 bf16 [3, 256] by [0 2 1], none, steps 0 -> #26 f32 [3, 256]",
          "= ddispatched f32 [3, 256]",
          "route_backward logits f32 [3, 2], [0 1 0], #27 f32 [3, 1], score 1, as it is, times "
          "2.500000 -> #46 f32 [3, 2]",
          "= dlogits f32 [3, 2]",
          "router_gradients dlogits f32 [3, 2], router bf16 [2, 256], none -> ddispatched+3072 f32 "
          "[3, 256], none",
          "permute dlogits f32 [3, 2] by [0 1 2] -> #47 f32 [3, 2]",
          "permute x bf16 [3, 256] by [0 1 2] -> #48 bf16 [3, 256]",
          "router_gradients #47 f32 [3, 2], none, #48 bf16 [3, 256] -> none, drouter f32 [2, 256]",
          "combine_rows ddispatched f32 [6, 256] by [0 3 1 4 2 5], none, steps 0 -> dx bf16 [3, "
          "256]"}));
}

TEST_F(MoeBackward, OfWeightsAtTheActivationsGoBackWithRows) {
  share();
  op.pipeline = MoePipeline::bf16;
  op.scores = MoeScores::swiglu;
  op.logits_bias = logits_bias.operand();
  op.w1_bias = w1_bias.operand();
  op.second_bias = SecondBias::plain;
  op.w2_bias = w2_bias.operand();
  op.gate.halves = Halves::interleaved;
  op.recompute = true;
  op.wgrad_sum = kFmaChain;
  back.dlogits_bias = dlogits_bias.result();
  back.dw1_bias = dw1_bias.result();
  back.dw2_bias = dw2_bias.result();
  back.dshared_w1 = dsw1.result();
  back.dshared_w2 = dsw2.result();
  EXPECT_EQ(
      backward(),
      (Steps{"= dcombined: dy bf16 [3, 256]",
             "combine_rows_backward #18 bf16 [6, 256] by [0 3 4 1 2 5], none, dy bf16 [3, 256] -> "
             "#24 bf16 [6, 256], none",
             "= dexpert_out bf16 [96, 256]",
             "zero 49152 of #26",
             "grouped_matmul permuted bf16 [96, 256], w1 bf16 [2, 256, 256] by [32 64], exact -> "
             "#26 bf16 [96, 256]",
             "add_bias #26 bf16 [96, 256], w1_bias bf16 [2, 256] -> #26 bf16 [96, 256]",
             "swiglu #26 bf16 [96, 256], #13 f32 [96], of another gate -> #27 bf16 [96, 128]",
             "zero 24576 of #28",
             "grouped_matmul dexpert_out bf16 [96, 256], w2 bf16 [2, 128, 256] by steps by [32 "
             "64], exact -> #28 bf16 [96, 128]",
             "column_sum dexpert_out bf16 [96, 256] -> dw2_bias f32 [2, 256]",
             "= dact bf16 [96, 128]",
             "swiglu_backward #26 bf16 [96, 256], #13 f32 [96], dact bf16 [96, 128], of another "
             "gate -> #29 bf16 [96, 256], #30 f32 [96]",
             "permute #31 f32 [6, 1] by [0 3 4 1 2 5] -> #23 f32 [6, 1]",
             "= dh bf16 [96, 256]",
             "zero 49152 of #32",
             "grouped_matmul dh bf16 [96, 256], w1 bf16 [2, 256, 256] by steps by [32 64], exact "
             "-> #32 bf16 [96, 256]",
             "column_sum dh bf16 [96, 256] -> dw1_bias f32 [2, 256]",
             "= dpermuted bf16 [96, 256]",
             "combine_rows #33 bf16 [6, 256] by [0 3 4 1 2 5], none, steps 0 -> #22 f32 [3, 256]",
             "= ddispatched f32 [3, 256]",
             "route_backward logits f32 [3, 2], [0 1 1 0 0 1], #23 f32 [3, 2], score 0, times "
             "1.000000 -> #34 f32 [3, 2]",
             "= dlogits f32 [3, 2]",
             "router_gradients dlogits f32 [3, 2], router bf16 [2, 256], none -> ddispatched+3072 "
             "f32 [3, 256], none",
             "permute dlogits f32 [3, 2] by [0 1 2] -> #35 f32 [3, 2]",
             "permute x bf16 [3, 256] by [0 1 2] -> #36 bf16 [3, 256]",
             "column_sum #35 f32 [3, 2] -> dlogits_bias f32 [2]",
             "permute x bf16 [3, 256] by [0 1 2] -> #37 bf16 [3, 256]",
             "permute dy bf16 [3, 256] by [0 1 2] -> #38 bf16 [3, 256]",
             "grouped_matmul #37 bf16 [3, 256], sw1 bf16 [1, 128, 256] by [3], exact -> #40 bf16 "
             "[3, 128]",
             "swiglu #40 bf16 [3, 128], none, of another gate -> #41 bf16 [3, 64]",
             "grouped_matmul #38 bf16 [3, 256], sw2 bf16 [1, 64, 256] by steps by [3], exact -> "
             "#42 bf16 [3, 64]",
             "pad_groups #41 bf16 [3, 64] to 16 -> #43 bf16 [32, 64]",
             "pad_groups #38 bf16 [3, 256] to 16 -> #46 bf16 [32, 256]",
             "grouped_matmul_wgrad #46 bf16 [32, 256], #43 bf16 [32, 64] by [0], exact -> dsw2 f32 "
             "[1, 256, 64]",
             "swiglu_backward #40 bf16 [3, 128], none, #42 bf16 [3, 64], of another gate -> #49 "
             "bf16 [3, 128], none",
             "grouped_matmul #49 bf16 [3, 128], sw1 bf16 [1, 256, 128] by steps by [3], exact -> "
             "#50 f32 [3, 256]",
             "pad_groups #37 bf16 [3, 256] to 16 -> #51 bf16 [32, 256]",
             "pad_groups #49 bf16 [3, 128] to 16 -> #54 bf16 [32, 128]",
             "grouped_matmul_wgrad #54 bf16 [32, 128], #51 bf16 [32, 256] by [0], exact -> dsw1 "
             "f32 [1, 128, 256]",
             "permute #50 f32 [3, 256] by [0 1 2] -> ddispatched+6144 f32 [3, 256]",
             "combine_rows ddispatched f32 [9, 256] by [0 3 6 1 4 7 2 5 8], none, steps 0 -> dx "
             "bf16 [3, 256]"}));
}

TEST_F(MoeBackward, OfInputWeightsAreOfTheRowsThatWereSent) {
  op.pipeline = MoePipeline::fp8_blockwise;
  op.recipe = linear_recipe_named("fp8_blockwise");
  op.scores = MoeScores::input;
  back.dw1 = dw1.result();
  EXPECT_EQ(
      backward(),
      (Steps{
          "= dcombined: dy bf16 [3, 256]",
          "combine_rows_backward #28 bf16 [6, 256] by [0 3 4 1 2 5], none, dy bf16 [3, 256] -> #31 "
          "bf16 [6, 256], none",
          "= dexpert_out bf16 [384, 256]",
          "zero 98304 of #33",
          "quantize dexpert_out bf16 [384, 256] -> #34 e4m3 [384, 256] * #35 f32 [384, 2] of 1x128",
          "quantize w2 bf16 [2, 128, 256] by steps -> #36 e4m3 [2, 128, 256] * #37 f32 [2, 1, 2] "
          "of 128x128",
          "grouped_matmul #34 e4m3 [384, 256] * #35 f32 [384, 2] of 1x128, #36 e4m3 [2, 128, 256] "
          "* #37 f32 [2, 1, 2] of 128x128 by [128 256], exact -> #33 bf16 [384, 128]",
          "= dact bf16 [384, 128]",
          "swiglu_backward h bf16 [384, 256], none, dact bf16 [384, 128] -> #38 bf16 [384, 256], "
          "none",
          "= dh bf16 [384, 256]",
          "zero 196608 of #40",
          "quantize dh bf16 [384, 256] -> #41 e4m3 [384, 256] * #42 f32 [384, 2] of 1x128",
          "quantize w1 bf16 [2, 256, 256] by steps -> #43 e4m3 [2, 256, 256] * #44 f32 [2, 2, 2] "
          "of 128x128",
          "grouped_matmul #41 e4m3 [384, 256] * #42 f32 [384, 2] of 1x128, #43 e4m3 [2, 256, 256] "
          "* #44 f32 [2, 2, 2] of 128x128 by [128 256], exact -> #40 bf16 [384, 256]",
          "dequantize permuted.codes e4m3 [384, 256] * permuted.scales f32 [384, 2] of 1x128 -> "
          "#45 bf16 [384, 256]",
          "grouped_matmul_wgrad dh bf16 [384, 256], #45 bf16 [384, 256] by [128 256], exact -> dw1 "
          "f32 [2, 256, 256]",
          "= dpermuted bf16 [384, 256]",
          "combine_rows #46 bf16 [6, 256] by [0 3 4 1 2 5], #10 f32 [3, 2], steps 0 -> #29 f32 [3, "
          "256]",
          "combine_rows_backward #46 bf16 [6, 256] by [0 3 4 1 2 5], #10 f32 [3, 2], x bf16 [3, "
          "256] -> #47 bf16 [6, 256], #30 f32 [3, 2]",
          "= ddispatched f32 [3, 256]",
          "route_backward logits f32 [3, 2], [0 1 1 0 0 1], #30 f32 [3, 2], score 0, times "
          "1.000000 -> #48 f32 [3, 2]",
          "= dlogits f32 [3, 2]",
          "router_gradients dlogits f32 [3, 2], router bf16 [2, 256], none -> ddispatched+3072 f32 "
          "[3, 256], none",
          "permute dlogits f32 [3, 2] by [0 1 2] -> #49 f32 [3, 2]",
          "permute x bf16 [3, 256] by [0 1 2] -> #50 bf16 [3, 256]",
          "combine_rows ddispatched f32 [6, 256] by [0 3 1 4 2 5], none, steps 0 -> dx bf16 [3, "
          "256]"}));
}

TEST_F(MoeBackward, OfCodesThatMoveTurnTheCodes) {
  op.pipeline = MoePipeline::flow;
  op.scores = MoeScores::swiglu;
  op.recompute = true;
  back.dw1 = dw1.result();
  back.dw2 = dw2.result();
  EXPECT_EQ(
      backward(),
      (Steps{
          "= dcombined: dy bf16 [3, 256]",
          "combine_rows_backward #26 bf16 [6, 256] by [0 3 4 1 2 5], none, dy bf16 [3, 256] -> #29 "
          "bf16 [6, 256], none",
          "quantize #29 bf16 [6, 256] -> #30 e4m3 [6, 256] * #31 f32 [6, 2] of 1x128",
          "= dexpert_out.codes e4m3 [384, 256]",
          "= dexpert_out.scales f32 [384, 2]",
          "zero 196608 of #34",
          "quantize w1 bf16 [2, 256, 256] -> #35 e4m3 [2, 256, 256] * #36 f32 [2, 2, 2] of 128x128",
          "grouped_matmul permuted.codes e4m3 [384, 256] * permuted.scales f32 [384, 2] of 1x128, "
          "#35 e4m3 [2, 256, 256] * #36 f32 [2, 2, 2] of 128x128 by [128 256], exact -> #34 bf16 "
          "[384, 256]",
          "swiglu_quantize #34 bf16 [384, 256], #16 f32 [384] -> #37 e4m3 [384, 128] * #38 f32 "
          "[384, 1] of 1x128",
          "zero 196608 of #40",
          "zero 98304 of #41",
          "quantize w2 bf16 [2, 256, 128] -> #42 e4m3 [2, 256, 128] * #43 f32 [2, 2, 1] of 128x128",
          "grouped_matmul dexpert_out.codes e4m3 [384, 256] * dexpert_out.scales f32 [384, 2] of "
          "1x128, #42 e4m3 [2, 128, 256] by steps * #43 f32 [2, 1, 2] of 128x128 by [128 256], "
          "exact -> #41 bf16 [384, 128]",
          "= dact bf16 [384, 128]",
          "scaling_aware_transpose dexpert_out.codes e4m3 [384, 256] -> #44 e4m3 [256, 384]",
          "scaling_aware_transpose #37 e4m3 [384, 128] -> #46 e4m3 [128, 384]",
          "grouped_matmul_wgrad #44 e4m3 [384, 256] by steps * #45 f32 [2, 256] of 128x1, #46 e4m3 "
          "[384, 128] by steps * #47 f32 [2, 128] of 128x1 by [128 256], exact -> dw2 f32 [2, 256, "
          "128]",
          "swiglu_quantize_backward #34 bf16 [384, 256], #16 f32 [384], dact bf16 [384, 128] -> "
          "#48 e4m3 [384, 256] * #49 f32 [384, 2] of 1x128, #39 f32 [384]",
          "= dh.codes e4m3 [384, 256]",
          "= dh.scales f32 [384, 2]",
          "quantize w1 bf16 [2, 256, 256] -> #50 e4m3 [2, 256, 256] * #51 f32 [2, 2, 2] of 128x128",
          "grouped_matmul dh.codes e4m3 [384, 256] * dh.scales f32 [384, 2] of 1x128, #50 e4m3 [2, "
          "256, 256] by steps * #51 f32 [2, 2, 2] by steps of 128x128 by [128 256], exact -> #40 "
          "bf16 [384, 256]",
          "scaling_aware_transpose dh.codes e4m3 [384, 256] -> #52 e4m3 [256, 384]",
          "scaling_aware_transpose permuted.codes e4m3 [384, 256] -> #54 e4m3 [256, 384]",
          "grouped_matmul_wgrad #52 e4m3 [384, 256] by steps * #53 f32 [2, 256] of 128x1, #54 e4m3 "
          "[384, 256] by steps * #55 f32 [2, 256] of 128x1 by [128 256], exact -> dw1 f32 [2, 256, "
          "256]",
          "permute #56 f32 [6, 1] by [0 3 4 1 2 5] -> #28 f32 [6, 1]",
          "= dpermuted bf16 [384, 256]",
          "combine_rows #57 bf16 [6, 256] by [0 3 4 1 2 5], none, steps 0 -> #27 f32 [3, 256]",
          "= ddispatched f32 [3, 256]",
          "route_backward logits f32 [3, 2], [0 1 1 0 0 1], #28 f32 [3, 2], score 0, times "
          "1.000000 -> #58 f32 [3, 2]",
          "= dlogits f32 [3, 2]",
          "router_gradients dlogits f32 [3, 2], router bf16 [2, 256], none -> ddispatched+3072 f32 "
          "[3, 256], none",
          "permute dlogits f32 [3, 2] by [0 1 2] -> #59 f32 [3, 2]",
          "permute x bf16 [3, 256] by [0 1 2] -> #60 bf16 [3, 256]",
          "combine_rows ddispatched f32 [6, 256] by [0 3 1 4 2 5], none, steps 0 -> dx bf16 [3, "
          "256]"}));
}

TEST_F(MoeBackward, DequantisesOnlyForWhatIsAsked) {
  op.w2_bias = w2_bias.operand();
  const auto steps_of_w2 = [&](const Result& dw, const Result& dbias) {
    back.dw2 = dw;
    back.dw2_bias = dbias;
    Steps steps;
    for (const std::string& step : backward()) {
      if (step == "= dact bf16 [96, 128]") break;
      const std::string name = step.substr(0, step.find(' '));
      steps.push_back(step.ends_with("-> dw2_bias f32 [2, 256]") ? name + " bias" : name);
    }
    steps.erase(steps.begin(), std::find(steps.begin(), steps.end(), "grouped_matmul") + 1);
    return steps;
  };
  EXPECT_EQ(steps_of_w2({}, {}), Steps{});
  EXPECT_EQ(steps_of_w2({}, dw2_bias.result()), (Steps{"dequantize", "column_sum bias"}));
  EXPECT_EQ(steps_of_w2(dw2.result(), {}), (Steps{"dequantize", "grouped_matmul_wgrad"}));
  EXPECT_EQ(steps_of_w2(dw2.result(), dw2_bias.result()),
            (Steps{"dequantize", "column_sum bias", "grouped_matmul_wgrad"}));
}

TEST_F(MoeBackward, OfKeptRowsRunNothingAgain) {
  for (const MoePipeline pipeline : {MoePipeline::bf16, MoePipeline::flow}) {
    op.pipeline = pipeline;
    for (const std::string& step : backward()) {
      EXPECT_FALSE(step.starts_with("swiglu ") || step.starts_with("swiglu_quantize ")) << step;
    }
  }
}

TEST_F(MoeBackward, IsTheSameUnseen) {
  back.dw2 = dw2.result();
  Steps seen;
  for (const std::string& step : backward()) {
    if (!step.starts_with("= ")) seen.push_back(step.substr(0, step.find(' ')));
  }
  op.observe = {};
  Steps unseen;
  for (const std::string& step : backward()) unseen.push_back(step.substr(0, step.find(' ')));
  EXPECT_EQ(seen, unseen);
}

}  // namespace
}  // namespace mxo
