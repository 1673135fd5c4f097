// Operators on codes and scales with one field wrong: refused by name, and before anything runs.
#include <limits>

#include "formats/tensor.h"
#include "ops/delayed_scale.h"
#include "ops/quantize.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu_quantize.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

TEST(WrongFields, OfQuantizersAreRefused) {
  Tensor x(Dtype::f32, {6, 64}), codes(Dtype::e4m3, {6, 64}), scales(Dtype::e8m0, {6, 2});
  Tensor numbers(Dtype::f32, {6, 1}), given(Dtype::f32, {6, 1}), ends(Dtype::i32, {2});
  Tensor blocks(Dtype::f32, {2, 64});
  ends.as<std::int32_t>()[0] = 4;
  ends.as<std::int32_t>()[1] = 6;
  expect_checked("quantize", quantize, {x.operand(), {}, {codes.result(), scales.result()}});
  expect_checked(
      "quantize", quantize,
      {x.operand(), {}, {codes.result(), numbers.result(), kRowBlock}, {}, given.operand()});
  expect_checked("quantize", quantize,
                 {x.operand(), ends.operand(), {codes.result(), blocks.result(), kColumnBlock}},
                 {"group_ends.0"});
  expect_checked("dequantize", dequantize, {{codes.operand(), scales.operand()}, {}, x.result()});
  expect_checked("dequantize", dequantize,
                 {{codes.operand(), blocks.operand(), kColumnBlock}, ends.operand(), x.result()},
                 {"group_ends.0"});
}

TEST(WrongFields, OfGatesThatQuantizeAreRefused) {
  Tensor x(Dtype::bf16, {6, 64}), probs(Dtype::f32, {6}), dy(Dtype::bf16, {6, 32});
  Tensor codes(Dtype::e4m3, {6, 32}), scales(Dtype::e8m0, {6, 1});
  Tensor dcodes(Dtype::e4m3, {6, 64}), dscales(Dtype::e8m0, {6, 2}), dprobs(Dtype::f32, {6});
  RightCall<SwigluQuantize> gate{
      "swiglu_quantize",
      swiglu_quantize,
      {x.operand(), probs.operand(), {}, Dtype::f32, {codes.result(), scales.result()}}};
  RightCall<SwigluQuantizeBackward> back{"swiglu_quantize_backward",
                                         swiglu_quantize_backward,
                                         {x.operand(),
                                          probs.operand(),
                                          dy.operand(),
                                          {},
                                          Dtype::f32,
                                          {dcodes.result(), dscales.result()},
                                          {},
                                          dprobs.result()}};
  gate.expect_that_checks_see_all();
  back.expect_that_checks_see_all();
  gate.op.rounding = back.op.rounding = Dtype::e4m3;
  for (const std::string& said : {gate.complaint(gate.op), back.complaint(back.op)}) {
    EXPECT_NE(said.find("rounding: found e4m3, needs f32 or bf16 or f16"), said.npos) << said;
  }
  back.op.rounding = Dtype::f32;
  back.op.probs = {};
  EXPECT_EQ(back.complaint(back.op),
            "swiglu_quantize_backward: dprobs: needs to be given exactly when probs is");
}

TEST(WrongFields, OfDelayedScalesAreRefused) {
  Tensor x(Dtype::bf16, {6, 4}), history(Dtype::f32, {3}), scale(Dtype::f32, {1});
  Tensor next(Dtype::f32, {3}), next_scale(Dtype::f32, {1}), none(Dtype::f32, {0});
  DelayedScale op;
  op.history = history.operand();
  op.scale = scale.operand();
  op.next_history = next.result();
  op.next_scale = next_scale.result();
  expect_checked("delayed_scale", delayed_scale, op);
  op.x = x.operand();
  using D = DelayedScale;
  const RightCall<D> right{"delayed_scale", delayed_scale, op, {"x"}};
  right.expect_that_checks_see_all();
  D bad = op;
  bad.x.dtype = Dtype::i32;
  EXPECT_EQ(right.complaint(bad), "delayed_scale: x: found i32, needs f32 or bf16 or f16");
  bad = op;
  bad.format = Dtype::bf16;
  EXPECT_NE(right.complaint(bad).find("delayed_scale: format: found bf16, needs e4m3"),
            std::string::npos);
  bad = op;
  bad.history = none.operand();
  bad.next_history = none.result();
  EXPECT_EQ(right.complaint(bad), "delayed_scale: history: found no element, needs one");
  bad.history = scale.operand();
  bad.scale = history.operand();
  bad.scale.extent[0] = 1;
  bad.next_history = next.result();
  bad.next_history.extent[0] = 1;
  EXPECT_EQ(right.complaint(bad), "") << "one element is a history";
}

TEST(WrongFields, OfTransposesThatKeepScalesAreRefused) {
  Tensor codes(Dtype::e4m3, {6, 4}), scales(Dtype::f32, {6, 1}), ends(Dtype::i32, {2});
  Tensor turned(Dtype::e4m3, {4, 6}), out(Dtype::f32, {2, 4});
  ends.as<std::int32_t>()[0] = 2;
  ends.as<std::int32_t>()[1] = 5;
  using T = ScalingAwareTranspose;
  T op;
  op.codes = codes.operand();
  op.scales = scales.operand();
  op.group_ends = ends.operand();
  op.codes_out = turned.result();
  op.scales_out = out.result();
  const RightCall<T> right{
      "scaling_aware_transpose", scaling_aware_transpose, op, {"group_ends.0"}};
  right.expect_that_checks_see_all();
  const auto with_scale = [&](Index row, float scale) {
    scales.as<float>()[row] = scale;
    const std::string said = right.complaint(op);
    scales.as<float>()[row] = 0;
    return said;
  };
  EXPECT_EQ(with_scale(0, 0x1p-126f), "");
  EXPECT_EQ(with_scale(4, 0x1p127f), "");
  EXPECT_EQ(with_scale(5, 3), "") << "a row of no group";
  const std::string needs = ", needs a power of two of at least 2^-126, or +0";
  EXPECT_EQ(with_scale(4, 3), "scaling_aware_transpose: scales: entry [4, 0] is 3.000000" + needs);
  for (const float bad : {0x1p-127f, -1.0f, -0.0f, 1.5f, std::numeric_limits<float>::infinity()}) {
    EXPECT_NE(with_scale(0, bad).find(needs), std::string::npos) << bad;
  }
  op.codes.dtype = Dtype::e4m3fnuz;
  EXPECT_EQ(right.complaint(op), "scaling_aware_transpose: codes_out: found e4m3, needs e4m3fnuz");
  op.codes_out.dtype = Dtype::e4m3fnuz;
  EXPECT_EQ(right.complaint(op), "");
  op.underflow = Underflow::flush;
  EXPECT_EQ(right.complaint(op),
            "scaling_aware_transpose: underflow: found a rule of e4m3, needs "
            "round for e4m3fnuz");
}

/// Two columns of scales; groups that end at `ends`.
std::string transposed_with(const std::vector<std::int32_t>& ends, Index row, Index column) {
  Tensor codes(Dtype::e4m3, {3, 130}), scales(Dtype::f32, {3, 2}), turned(Dtype::e4m3, {130, 3});
  Tensor groups(Dtype::i32, {static_cast<Index>(ends.size())});
  Tensor out(Dtype::f32, {static_cast<Index>(ends.size()), 130});
  std::copy(ends.begin(), ends.end(), groups.as<std::int32_t>());
  scales.as<float>()[row * 2 + column] = 3;
  Bare bare;
  return check_refusal([&] {
    scaling_aware_transpose(
        bare, {codes.operand(), scales.operand(), groups.operand(), turned.result(), out.result()});
  });
}

TEST(WrongFields, OfKeptScalesAreThoseOfGroups) {
  EXPECT_EQ(transposed_with({}, 0, 0), "");
  EXPECT_EQ(transposed_with({1}, 1, 0), "");
  const std::string op = "scaling_aware_transpose: scales: entry ";
  const std::string needs = " is 3.000000, needs a power of two of at least 2^-126, or +0";
  EXPECT_EQ(transposed_with({1}, 0, 0), op + "[0, 0]" + needs);
  EXPECT_EQ(transposed_with({1, 3}, 2, 1), op + "[2, 1]" + needs);
}

}  // namespace
}  // namespace mxo
