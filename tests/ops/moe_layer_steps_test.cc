// A layer of experts, forward: the steps that it is made of.
#include <algorithm>

#include "tests/ops/moe_layer_calls.h"

namespace mxo {
namespace {

struct MoeForward : MoeCalls {};

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
