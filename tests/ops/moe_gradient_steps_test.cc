// Gradients of a layer of experts: the steps that they are made of.
#include <algorithm>

#include "tests/ops/moe_layer_calls.h"

namespace mxo {
namespace {

struct MoeBackward : MoeCalls {};

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

}  // namespace
}  // namespace mxo
