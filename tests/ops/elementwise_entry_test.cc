// The catalogue's operators of single elements, columns, gates and routes, as they reach a
// backend.
#include "tests/ops/entry_calls.h"

namespace mxo::elementwise_entry_test {
namespace {

TEST(ElementwiseEntries, CastAddAndSum) {
  expect_reached(R"(
cast: x i32 2 3
  -> x f32 2x3, y bf16 2x3
  out=f16 -> x f32 2x3, y f16 2x3
add_bias: y i32 5 3, bias u16 3
  -> y f32 5x3, bias bf16 3, out bf16 5x3
add_bias: y i32 5 3, bias u16 2 3, group_ends = 2 5
  out=f32 -> y f32 5x3, bias bf16 2x3, group_ends i32 2, out f32 5x3
column_sum: x u16 5 3
  -> x bf16 5x3, sum f32 3
  out=bf16 -> x bf16 5x3, sum bf16 3
  over=groups -> column_sum: group_ends: missing, needed with sum of rank 2
column_sum: x u16 5 3, group_ends = 2 5
  -> x bf16 5x3, group_ends i32 2, sum f32 3
  over=groups -> x bf16 5x3, group_ends i32 2, sum f32 2x3
column_sum: x f32 5, group_ends = 2 5
  -> column_sum: x: found f32 [5], needs rank 2
)");
}

TEST(ElementwiseEntries, AskForFunctionsOfTheChip) {
  expect_reached(R"(
approximate: x i32 2 3
  -> x f32 2x3, y f32 2x3
  ftz=false -> x f32 2x3, y f32 2x3, ftz 0
  function=ex2 -> x f32 2x3, y f32 2x3
  function=rcp -> x f32 2x3, y f32 2x3, function 1
  function=rsqrt -> x f32 2x3, y f32 2x3, function 2
  function=sqrt -> x f32 2x3, y f32 2x3, function 3
  function=lg2 -> x f32 2x3, y f32 2x3, function 4
  function=tanh -> x f32 2x3, y f32 2x3, function 5
approximate: x i32 2 3, b i32 2 3
  function=div_full -> x f32 2x3, b f32 2x3, y f32 2x3, function 6
  machine=sm90 function=div_full -> x f32 2x3, b f32 2x3, y f32 2x3, function 6
  machine=sm100 -> approximate: machine: found sm100, needs sm90
)");
}

TEST(ElementwiseEntries, EncodeAndDecode) {
  expect_reached(R"(
encode: x u16 2 3
  -> x bf16 2x3, codes e4m3 2x3
  format=e5m2 overflow=nonfinite nan=signed -> x bf16 2x3, codes e5m2 2x3, overflow 1, nan 1
  format=e8m0 rounding=up -> x bf16 2x3, codes e8m0 2x3, rounding 1
  format=e8m0 rounding=zero -> x bf16 2x3, codes e8m0 2x3, rounding 2
decode: codes u8 2 3
  -> codes e4m3 2x3, x f32 2x3
  format=e8m0 -> codes e8m0 2x3, x f32 2x3
)");
}

TEST(ElementwiseEntries, ReadBitsAsTheirKindAndFillWhatHoldsThem) {
  expect_reached(R"(
decode: codes e5m2 2
  -> decode: codes: found e5m2, needs u8 holding e4m3
  format=e5m2 -> codes e5m2 2, x f32 2
cast: x u32 2, y > u16 2
  -> x f32 2, y bf16 2
cast: x f16 2, y > i16 2
  -> x f16 2, y bf16 2
cast: x f32 2, y > f16 2
  -> cast: y: found f16 to write to, needs bf16
cast: x f32 2, y > i32 2
  -> cast: y: found i32 to write to, needs bf16
cast: x f32 2, y > bf16 3
  -> cast: y: found bf16 [3], needs [2]
encode: x f32 2, codes > u8 2
  -> x f32 2, codes e4m3 2
encode: x f32 2, codes > e5m2 2
  -> encode: codes: found e5m2 to write to, needs e4m3
encode: x f32 2, codes > bool 2
  -> encode: codes: found bool to write to, needs e4m3
mask_to_experts: mask e4m3 3 4
  top_k=2 -> mask_to_experts: mask: found e4m3, needs u8 or bool
)");
}

TEST(StepEntries, RouteTokens) {
  expect_reached(R"(
route: logits u16 5 8
  -> logits bf16 5x8, experts i32 5x1, weights f32 5x1, tokens_per_expert i32 8
  top_k=8 -> logits bf16 5x8, experts i32 5x8, weights f32 5x8, tokens_per_expert i32 8
  top_k=9 -> route: top_k: found 9, needs 1 to 8
  top_k=0 -> route: top_k: found 0, needs 1 to 8
  top_k=-1 -> route: top_k: found -1, needs 1 to 8
  groups=4 -> logits bf16 5x8, experts i32 5x1, weights f32 5x1, tokens_per_expert i32 8, groups 4,
      limited_groups 4
route: logits u16 5 8, bias f32 8
  top_k=3 score=sigmoid groups=4 limited_groups=2 normalize=false scale=2.5 group_score=best
      other_groups=zero -> logits bf16 5x8, bias f32 8, experts i32 5x3, weights f32 5x3,
      tokens_per_expert i32 8, score 1, groups 4, limited_groups 2, normalize 0, scale 2.5,
      group_score 1, other_groups 1
route: logits f32 8
  -> route: logits: found rank 1, needs rank 2
)");
}

TEST(StepEntries, GateHalves) {
  expect_reached(R"(
swiglu: x u16 4 12
  -> x bf16 4x12, y f32 4x6
  rounding=bf16 -> x bf16 4x12, y bf16 4x6
  rounding=f16 -> x bf16 4x12, y f16 4x6
  halves=gate_only -> x bf16 4x12, y f32 4x12, gate 0/3/0/1/inf/0/0
swiglu: x u16 4 12, probs i32 4
  -> x bf16 4x12, probs f32 4, y f32 4x6
swiglu: x f32 4
  -> swiglu: x: found rank 1, needs rank 2
swiglu_backward: x u16 4 12, dy i32 4 6
  halves=interleaved -> x bf16 4x12, dy f32 4x6, dx f32 4x12, gate 0/2/0/1/inf/0/0
swiglu_backward: x u16 4 12, dy i32 4 6, probs i32 4
  rounding=f16 -> x bf16 4x12, probs f32 4, dy f32 4x6, dx f16 4x12, dprobs f32 4
swiglu_backward: x f32 4, dy i32 4 6
  -> swiglu_backward: x: found rank 1, needs rank 2
)");
}

TEST(StepEntries, TransposeByExponents) {
  expect_reached(R"(
scaling_aware_transpose: codes u8 512 384, scales i32 512 3, group_ends = 128 512
  -> codes e4m3 512x384, scales f32 512x3, group_ends i32 2, codes_out codes e4m3 384x512,
      scales_out scales f32 4x384
  underflow=keep_mantissa -> codes e4m3 512x384, scales f32 512x3, group_ends i32 2, codes_out codes
      e4m3 384x512, scales_out scales f32 4x384, underflow 1
  underflow=flush -> codes e4m3 512x384, scales f32 512x3, group_ends i32 2, codes_out codes e4m3
      384x512, scales_out scales f32 4x384, underflow 2
scaling_aware_transpose: codes u8 512, scales i32 512 3, group_ends = 128 512
  -> scaling_aware_transpose: codes: found rank 1, needs rank 2
scaling_aware_transpose: codes u8 512 384, scales i32 512 3, group_ends i32 1 2
  -> scaling_aware_transpose: group_ends: found rank 2, needs rank 1
)");
}

TEST(StepEntries, RouteWithinTheirEnds) {
  expect_reached(R"(
route: logits f32 3 8
  top_k=8 groups=4 limited_groups=2 other_groups=zero -> logits f32 3x8, experts i32 3x8, weights
      f32 3x8, tokens_per_expert i32 8, groups 4, limited_groups 2, other_groups 1
  top_k=2 groups=0 -> route: groups: found 0, needs 1 to 8
  top_k=2 groups=9 -> route: groups: found 9, needs 1 to 8
  top_k=2 groups=3 -> route: groups: the number of experts is 8, not a multiple of 3
  top_k=2 groups=4 limited_groups=0 -> route: limited_groups: found 0, needs 1 to 4
  top_k=2 groups=4 limited_groups=5 -> route: limited_groups: found 5, needs 1 to 4
  top_k=5 groups=4 limited_groups=2 -> route: top_k: found 5, needs 1 to 4
  scale=inf -> route: scale: found no finite number, needs one
  scale=nan -> route: scale: found no finite number, needs one
route: logits f32 3 1
  -> logits f32 3x1, experts i32 3x1, weights f32 3x1, tokens_per_expert i32 1
)");
}

TEST(StepEntries, GateByRulesThatCanBe) {
  expect_reached(R"(
swiglu: x f32 2 6
  alpha=1.5 limit=7 up_offset=1 -> x f32 2x6, y f32 2x3, gate 0/0/0/1.5/7/1/0
  activation=gelu up_offset=1 -> x f32 2x6, y f32 2x3, gate 1/0/0/1/inf/1/0
  alpha=inf -> swiglu: alpha: found no finite number, needs one
  up_offset=inf -> swiglu: up_offset: found no finite number, needs one
  limit=0 -> swiglu: limit: found no positive number, needs one
  limit=-1 -> swiglu: limit: found no positive number, needs one
  limit=nan -> swiglu: limit: found no positive number, needs one
  limit=1e40 -> limit: found 1e40, needs a number that a float holds, or inf for none
  activation=gelu alpha=2 -> swiglu: alpha: found with an activation that has none, needs silu
  activation=gelu arithmetic=triton_sm90 -> swiglu: arithmetic: found Triton's with an activation
      other than silu, needs silu
  halves=gate_only up_offset=1 -> swiglu: up_offset: found with halves=gate_only, needs two halves
  arithmetic=triton -> swiglu: arithmetic: found triton, needs one of rounded, triton_sm90,
      triton_sm90_quotient
swiglu: x f32 2 7
  -> swiglu: x: the number of columns, 2F, is 7, not a multiple of 2
)");
}

TEST(ElementwiseEntries, HaveOneToFourAxes) {
  expect_reached(R"(
cast: x f32 2 3 1 1
  -> x f32 2x3x1x1, y bf16 2x3x1x1
cast: x f32
  -> cast: x: found f32 [], needs rank 1 to 4
encode: x f32 2 3 1 1
  -> x f32 2x3x1x1, codes e4m3 2x3x1x1
encode: x f32
  -> encode: x: found f32 [], needs rank 1 to 4
decode: codes u8 2 3 1 1
  -> codes e4m3 2x3x1x1, x f32 2x3x1x1
decode: codes u8
  -> decode: codes: found e4m3 [], needs rank 1 to 4
)");
}

}  // namespace
}  // namespace mxo::elementwise_entry_test
