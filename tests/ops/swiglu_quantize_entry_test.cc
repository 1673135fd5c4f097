// The catalogue's gate that quantises, with its gradients: what of a call reaches the backend.
#include "ops/swiglu_quantize.h"

#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(SwigluQuantizeEntry, OperandsReachTheBackend) {
  EntryCalls<SwigluQuantize> call{"swiglu_quantize"};
  call.add("x", Dtype::u16, {64, 256});
  const SwigluQuantize& op = call.op();
  EXPECT_EQ(call.told(op.x), "x bf16 [64, 256]");
  EXPECT_FALSE(op.probs.given());
  EXPECT_FALSE(op.group_ends.given());
  EXPECT_EQ(op.rounding, Dtype::f32);
  EXPECT_EQ(op.gate, GateRule{});
  EXPECT_EQ(op.rule.mode, ScaleMode::rceil);
  EXPECT_EQ(call.told(op.to.codes), "codes e4m3 [64, 128]");
  EXPECT_EQ(call.told(op.to.scales), "scales e8m0 [64, 4]");
  EXPECT_EQ(call.said_of("x", Dtype::f32, {64}), "swiglu_quantize: x: found rank 1, needs rank 2");
}

TEST(SwigluQuantizeEntry, ParametersReachTheBackend) {
  EntryCalls<SwigluQuantize> call{"swiglu_quantize"};
  call.add("x", Dtype::u16, {64, 256});
  call.add("probs", Dtype::i32, {64});
  call.numbers("group_ends", {5, 64});
  const SwigluQuantize& op = call.op({{"block", "128x128"},
                                      {"format", "e5m2"},
                                      {"halves", "gate_only"},
                                      {"rounding", "bf16"},
                                      {"epsilon", "0.5"}});
  EXPECT_EQ(call.told(op.probs), "probs f32 [64]");
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(op.rounding, Dtype::bf16);
  EXPECT_EQ(op.gate.halves, Halves::gate_only);
  EXPECT_EQ(op.rule.f32.epsilon, 0.5);
  EXPECT_EQ(call.told(op.to.codes), "codes e5m2 [64, 256]");
  EXPECT_EQ(call.told(op.to.scales), "scales f32 [2, 2]");
}

TEST(SwigluQuantizeEntry, RoundsBeforeAsTold) {
  EntryCalls<SwigluQuantize> call{"swiglu_quantize"};
  call.add("x", Dtype::f16, {64, 256});
  EXPECT_EQ(call.op({{"rounding", "f16"}}).rounding, Dtype::f16);
  EXPECT_EQ(call.op({{"rounding", "none"}}).rounding, Dtype::f32);
}

TEST(SwigluQuantizeEntry, GradientsAreAsWideAsX) {
  EntryCalls<SwigluQuantizeBackward> call{"swiglu_quantize_backward"};
  call.add("x", Dtype::u16, {64, 256});
  call.add("dy", Dtype::i32, {64, 128});
  const SwigluQuantizeBackward& op = call.op({{"rounding", "bf16"}, {"halves", "up_first"}});
  EXPECT_EQ(call.told(op.x), "x bf16 [64, 256]");
  EXPECT_EQ(call.told(op.dy), "dy f32 [64, 128]");
  EXPECT_EQ(op.rounding, Dtype::bf16);
  EXPECT_EQ(op.gate.halves, Halves::up_first);
  EXPECT_FALSE(op.probs.given());
  EXPECT_FALSE(op.dprobs.given());
  EXPECT_EQ(call.made(), "codes e4m3 [64, 256], scales e8m0 [64, 8]");
  EXPECT_EQ(call.told(op.to.codes), "codes e4m3 [64, 256]");
  call.add("probs", Dtype::i32, {64});
  call.numbers("group_ends", {32, 64});
  const SwigluQuantizeBackward& weighed = call.op({{"block", "32x1"}});
  EXPECT_EQ(call.told(weighed.probs), "probs f32 [64]");
  EXPECT_EQ(call.told(weighed.dprobs), "dprobs f32 [64]");
  EXPECT_EQ(call.told(weighed.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.said_of("x", Dtype::f32, {64}),
            "swiglu_quantize_backward: x: found rank 1, needs rank 2");
}

}  // namespace
}  // namespace mxo
