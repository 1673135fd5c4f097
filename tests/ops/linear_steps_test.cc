// A linear layer and its gradients: the steps and the factors that they are made of.
#include <gtest/gtest.h>

#include "ops/grouped_linear.h"
#include "ops/linear_factor.h"
#include "tests/ops/linear_calls.h"
#include "tests/ops/recorder.h"

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

struct Factors : testing::Test {
  Tensor x{Dtype::bf16, {96, 256}};
  Tensor f32{Dtype::f32, {96, 256}};
  Tensor w{Dtype::bf16, {2, 128, 256}};
  Tensor ends{Dtype::i32, {2}};
  Recorder recorder;

  Factors() {
    ends.as<std::int32_t>()[0] = 33;
    ends.as<std::int32_t>()[1] = 96;
    recorder.names = {{x.data(), "x"}, {f32.data(), "f32"}, {w.data(), "w"}, {ends.data(), "ends"}};
  }
  std::string step() const {
    EXPECT_EQ(recorder.steps.size(), 1u);
    return recorder.steps.empty() ? "" : recorder.steps.back();
  }
};

TEST_F(Factors, OfBf16AreBorrowedOrRounded) {
  const LinearRecipe& recipe = linear_recipe_named("bf16");
  const OwnedScaledTensor of[] = {
      in_bf16(recorder, x.operand()),
      scaled_along_columns(recorder, recipe, Dtype::e4m3, x.operand(), LinearSide::tokens),
      scaled_along_tokens(recorder, recipe, Dtype::e4m3, x.operand(), ends.operand())};
  for (const OwnedScaledTensor& factor : of) {
    EXPECT_EQ(factor.codes().data, x.data());
    EXPECT_FALSE(factor.view().scaled());
  }
  EXPECT_EQ(recorder.steps, std::vector<std::string>{});
  const OwnedScaledTensor rounded = in_bf16(recorder, f32.operand());
  EXPECT_EQ(step(), "cast f32 f32 [96, 256] -> #1 bf16 [96, 256]");
  EXPECT_EQ(recorder.said(rounded.view()), "#1 bf16 [96, 256]");
}

TEST_F(Factors, MakeRoomForAllBlocksADeviceMayCut) {
  Recorder device(false);
  device.names = recorder.names;
  const OwnedScaledTensor q = scaled_along_tokens(device, linear_recipe_named("fp8_blockwise"),
                                                  Dtype::e4m3, x.operand(), ends.operand());
  ASSERT_EQ(device.steps.size(), 1u);
  EXPECT_EQ(device.steps[0],
            "quantize x bf16 [96, 256] by ends i32 [2] -> #1 e4m3 [96, 256] * #2 f32 [2, 256] "
            "of 128x1");
}

}  // namespace
}  // namespace mxo
