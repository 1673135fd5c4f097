// The catalogue's steps of a layer of experts: routing, gates and the transpose by exponents.
#include "ops/route.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

struct RouteEntry : testing::Test {
  EntryCalls<Route> call{"route"};

  RouteEntry() { call.add("logits", Dtype::u16, {5, 8}); }
};

TEST_F(RouteEntry, IsOfTheBestExpertUnlessTold) {
  const Route& op = call.op();
  EXPECT_EQ(call.told(op.logits), "logits bf16 [5, 8]");
  EXPECT_FALSE(op.bias.given());
  EXPECT_EQ(call.told(op.experts), "experts i32 [5, 1]");
  EXPECT_EQ(call.told(op.weights), "weights f32 [5, 1]");
  EXPECT_EQ(call.told(op.tokens_per_expert), "tokens_per_expert i32 [8]");
  EXPECT_EQ(op.score, RouterScore::softmax);
  EXPECT_EQ(op.groups, 1);
  EXPECT_EQ(op.limited_groups, 1);
  EXPECT_TRUE(op.normalize);
  EXPECT_EQ(op.scale, 1.0f);
  EXPECT_EQ(op.group_score, GroupScore::two_best);
  EXPECT_EQ(op.other_groups, OtherGroups::excluded);
}

TEST_F(RouteEntry, ParametersReachTheBackend) {
  call.add("bias", Dtype::f32, {8});
  const Route& op = call.op({{"top_k", "3"},
                             {"score", "sigmoid"},
                             {"groups", "4"},
                             {"limited_groups", "2"},
                             {"normalize", "false"},
                             {"scale", "2.5"},
                             {"group_score", "best"},
                             {"other_groups", "zero"}});
  EXPECT_EQ(call.told(op.bias), "bias f32 [8]");
  EXPECT_EQ(call.told(op.experts), "experts i32 [5, 3]");
  EXPECT_EQ(call.told(op.weights), "weights f32 [5, 3]");
  EXPECT_EQ(op.score, RouterScore::sigmoid);
  EXPECT_EQ(op.groups, 4);
  EXPECT_EQ(op.limited_groups, 2);
  EXPECT_FALSE(op.normalize);
  EXPECT_EQ(op.scale, 2.5f);
  EXPECT_EQ(op.group_score, GroupScore::best);
  EXPECT_EQ(op.other_groups, OtherGroups::zero);
  EXPECT_EQ(call.op({{"groups", "4"}}).limited_groups, 4) << "all of them";
}

TEST_F(RouteEntry, TokensHaveOneToAllExperts) {
  EXPECT_EQ(call.op({{"top_k", "8"}}).experts.extent[1], 8);
  EXPECT_EQ(call.said({{"top_k", "9"}}), "route: top_k: found 9, needs 1 to 8");
  EXPECT_EQ(call.said({{"top_k", "0"}}), "route: top_k: found 0, needs 1 to 8");
  EXPECT_EQ(call.said({{"top_k", "-1"}}), "route: top_k: found -1, needs 1 to 8");
  EXPECT_EQ(call.said_of("logits", Dtype::f32, {8}), "route: logits: found rank 1, needs rank 2");
}

TEST(SwigluEntry, RoundsAsTold) {
  EntryCalls<Swiglu> call{"swiglu"};
  call.add("x", Dtype::u16, {4, 12});
  const Swiglu& op = call.op();
  EXPECT_EQ(call.told(op.x), "x bf16 [4, 12]");
  EXPECT_FALSE(op.probs.given());
  EXPECT_EQ(op.gate, GateRule{});
  EXPECT_EQ(call.made(), "y f32 [4, 6]");
  EXPECT_EQ(call.told(call.op({{"rounding", "bf16"}}).y), "y bf16 [4, 6]");
  EXPECT_EQ(call.told(call.op({{"rounding", "f16"}}).y), "y f16 [4, 6]");
  EXPECT_EQ(call.told(call.op({{"halves", "gate_only"}}).y), "y f32 [4, 12]");
  EXPECT_EQ(call.backend.kept[0].gate.halves, Halves::gate_only);
  call.add("probs", Dtype::i32, {4});
  EXPECT_EQ(call.told(call.op().probs), "probs f32 [4]");
  EXPECT_EQ(call.said_of("x", Dtype::f32, {4}), "swiglu: x: found rank 1, needs rank 2");
}

TEST(SwigluEntry, GradientsAreOfAllThatIsGiven) {
  EntryCalls<SwigluBackward> call{"swiglu_backward"};
  call.add("x", Dtype::u16, {4, 12});
  call.add("dy", Dtype::i32, {4, 6});
  const SwigluBackward& op = call.op({{"halves", "interleaved"}});
  EXPECT_EQ(call.told(op.x), "x bf16 [4, 12]");
  EXPECT_EQ(call.told(op.dy), "dy f32 [4, 6]");
  EXPECT_EQ(op.gate.halves, Halves::interleaved);
  EXPECT_FALSE(op.probs.given());
  EXPECT_EQ(call.made(), "dx f32 [4, 12]");
  EXPECT_EQ(call.told(op.dx), "dx f32 [4, 12]");
  call.add("probs", Dtype::i32, {4});
  const SwigluBackward& weighed = call.op({{"rounding", "f16"}});
  EXPECT_EQ(call.told(weighed.probs), "probs f32 [4]");
  EXPECT_EQ(call.told(weighed.dprobs), "dprobs f32 [4]");
  EXPECT_EQ(call.made(), "dprobs f32 [4], dx f16 [4, 12]");
  EXPECT_EQ(call.said_of("x", Dtype::f32, {4}), "swiglu_backward: x: found rank 1, needs rank 2");
}

TEST(TransposeEntry, ScalesAreThoseOfTheGroups) {
  EntryCalls<ScalingAwareTranspose> call{"scaling_aware_transpose"};
  call.add("codes", Dtype::u8, {512, 384});
  call.add("scales", Dtype::i32, {512, 3});
  call.numbers("group_ends", {128, 512});
  const ScalingAwareTranspose& op = call.op();
  EXPECT_EQ(call.told(op.codes), "codes e4m3 [512, 384]");
  EXPECT_EQ(call.told(op.scales), "scales f32 [512, 3]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(op.codes_out), "codes e4m3 [384, 512]");
  EXPECT_EQ(call.told(op.scales_out), "scales f32 [4, 384]");
  EXPECT_EQ(op.underflow, Underflow::round);
  EXPECT_EQ(call.op({{"underflow", "keep_mantissa"}}).underflow, Underflow::keep_mantissa);
  EXPECT_EQ(call.op({{"underflow", "flush"}}).underflow, Underflow::flush);
  EXPECT_EQ(call.said_of("codes", Dtype::u8, {512}),
            "scaling_aware_transpose: codes: found rank 1, needs rank 2");
  EXPECT_EQ(call.said_of("group_ends", Dtype::i32, {1, 2}),
            "scaling_aware_transpose: group_ends: found rank 2, needs rank 1");
}

}  // namespace
}  // namespace mxo
