// A linear layer and its gradients called with one field wrong: refused by name, before any step.
#include "ops/grouped_linear.h"
#include "tests/ops/entry_calls.h"
#include "tests/ops/right_call.h"
#include "tests/support/random_tensors.h"

namespace mxo {

template <typename O, typename Fn>
requires std::same_as<std::remove_const_t<O>, GroupedLinear>
void each_field(O& op, const Fn& fn) {
  each_named("x, x.codes, x.scales, w, group_ends, bias, y", fn, op.x, op.x_codes, op.x_scales,
             op.w, op.group_ends, op.bias, op.y);
}

namespace linear_checks_test {

using L = GroupedLinear;

/// 96 tokens of K 64, N 32, of which the groups have the first 32 and the rest.
struct LinearChecks : testing::Test {
  Tensor x{Dtype::bf16, {96, 64}}, codes{Dtype::e4m3, {96, 64}}, scales{Dtype::e8m0, {96, 2}};
  Tensor w{Dtype::bf16, {2, 32, 64}}, ends = test::integers_of({32, 96}), bias{Dtype::f32, {32}};
  Tensor biases{Dtype::bf16, {2, 32}}, dy{Dtype::bf16, {96, 32}}, dw{Dtype::f32, {2, 32, 64}};
  Tensor y{Dtype::bf16, {96, 32}}, dx{Dtype::bf16, {96, 64}}, dbias{Dtype::f32, {2, 32}};
  KeepingBackend backend;

  L call(std::string_view recipe = "mxfp8_rceil") {
    L op;
    op.x = x.operand();
    op.w = w.operand();
    op.group_ends = ends.operand();
    op.recipe = linear_recipe_named(recipe);
    op.y = y.result();
    return op;
  }
  L call_of_codes() {
    L op = call();
    op.x = {};
    op.x_codes = codes.operand();
    op.x_scales = scales.operand();
    return op;
  }
  /// What forward says, or nothing.
  std::string said(const L& op) {
    return refusal([&] { grouped_linear(backend, op); });
  }
};

/// A call of the gradients with what the forward pass was called with, as one.
struct Both {
  Operand x, w, group_ends, bias, dy;
  Result dx, dw, dbias;
};

template <typename O, typename Fn>
requires std::same_as<std::remove_const_t<O>, Both>
void each_field(O& op, const Fn& fn) {
  each_named("x, w, group_ends, bias, dy, dx, dw, dbias", fn, op.x, op.w, op.group_ends, op.bias,
             op.dy, op.dx, op.dw, op.dbias);
}

void forward(Backend& backend, const L& op) { grouped_linear(backend, op); }

void backward(Backend& backend, const Both& op) {
  L call;
  call.x = op.x;
  call.w = op.w;
  call.group_ends = op.group_ends;
  call.bias = op.bias;
  grouped_linear_backward(backend, {call, {}, {}}, {op.dy, op.dx, op.dw, op.dbias});
}

TEST_F(LinearChecks, RefusesWrongFields) {
  for (const Tensor* const b : {&bias, &biases}) {
    L op = call();
    op.bias = b->operand();
    expect_checked("grouped_linear", forward, op);
  }
  expect_checked("grouped_linear", forward, call_of_codes());
}

TEST_F(LinearChecks, RefusesWrongFieldsOfGradients) {
  Tensor room(Dtype::f32, {2 * 32 * 64});  // for any result, so that it lies over the bias alone
  const Operand of_room = view_of(static_cast<const void*>(room.data()), Dtype::f32, {32});
  const Both op{x.operand(),  w.operand(), ends.operand(), of_room,
                dy.operand(), dx.result(), dw.result(),    dbias.result()};
  const RightCall<Both> right{"grouped_linear", backward, op, {"bias"}};
  right.expect_that_checks_see_all();
  for (Result Both::*const written : {&Both::dx, &Both::dw, &Both::dbias}) {
    Both alone = op;
    for (Result Both::*const other : {&Both::dx, &Both::dw, &Both::dbias})
      if (other != written) alone.*other = {};
    EXPECT_EQ(right.complaint(alone), "");
  }
}

TEST_F(LinearChecks, TakesCodesWhereBlocksAreOfARow) {
  for (const std::string_view recipe : {"fp8_rowwise", "bf16"}) {
    L op = call_of_codes();
    op.recipe = linear_recipe_named(recipe);
    EXPECT_EQ(said(op), "grouped_linear: x.codes: found recipe " + std::string(recipe) +
                            ", needs one that scales blocks of a row");
  }
  L op = call_of_codes();
  Tensor f32(Dtype::f32, {96, 1});
  op.recipe = linear_recipe_named("fp8_blockwise");
  op.x_scales = f32.operand();
  EXPECT_EQ(said(op), "");
  Tensor odd(Dtype::e4m3, {96, 63}), odd_w(Dtype::bf16, {2, 32, 63});
  op.x_codes = odd.operand();
  op.w = odd_w.operand();
  EXPECT_EQ(said(op), "") << "the last block is shorter";
  op = call_of_codes();
  op.x_codes = odd.operand();
  EXPECT_EQ(said(op), "grouped_linear: x.codes: K is 63, not a multiple of 32");
}

TEST_F(LinearChecks, KnowsRecipesByTheirNamesElsewhere) {
  for (const auto& [typed, here] : {std::pair{"MXFP8_RCEIL", "mxfp8_rceil"},
                                    {"mxfp8_emulated_rceil", "mxfp8_rceil"},
                                    {"MXFP8_RCEIL_WGRAD_WITH_HP", "mxfp8_rceil_wgrad_with_hp"},
                                    {"FP8_ROWWISE", "fp8_rowwise"}}) {
    EXPECT_EQ(linear_recipe_named(typed).name, here);
    Parameters set;
    set.set("recipe", typed);
    const auto& specs = catalogue_entry("grouped_linear").parameters;
    set.check("grouped_linear", specs);
    EXPECT_EQ(set.as_listed(specs).text("recipe", ""), here);
  }
  EXPECT_THROW(linear_recipe_named("mxfp8_emulated"), Error);
}

TEST_F(LinearChecks, TakesFormatsOfTheRecipe) {
  L op = call();
  op.format = Dtype::bf16;
  EXPECT_EQ(said(op), "grouped_linear: format: found bf16, needs an 8-bit float");
  op.recipe = linear_recipe_named("bf16");
  EXPECT_EQ(said(op), "") << "which has no codes";
  op.recipe = linear_recipe_named("vllm");
  op.format = Dtype::e5m2fnuz;
  EXPECT_EQ(said(op), "");
  op.recipe = linear_recipe_named("fp8_blockwise");
  op.format = Dtype::e4m3fnuz;
  EXPECT_EQ(said(op), "");
}

TEST_F(LinearChecks, PadsToAPositiveAlignment) {
  const std::string needs = "grouped_linear: alignment: found ";
  L op = call();
  op.padding = GroupPadding::alignment;
  const auto with = [&](std::string_view recipe, Index alignment) {
    op.recipe = linear_recipe_named(recipe);
    op.alignment = alignment;
    return said(op);
  };
  EXPECT_EQ(with("mxfp8_rceil", 0), "");
  EXPECT_EQ(with("mxfp8_rceil", 64), "");
  EXPECT_EQ(with("mxfp8_rceil", 16), needs + "16, needs a positive multiple of 32");
  EXPECT_EQ(with("mxfp8_rceil", -32), needs + "-32, needs a positive multiple of 32");
  EXPECT_EQ(with("mxfp8_rceil_wgrad_with_hp", 16), "");
  EXPECT_EQ(with("fp8_rowwise", 1), "");
  EXPECT_EQ(with("fp8_rowwise", -1), needs + "-1, needs a positive number");
  op.recipe.alignment = 0;
  op.alignment = 0;
  EXPECT_EQ(said(op), needs + "0, needs a positive number");
  op.padding = GroupPadding::none;
  EXPECT_EQ(with("mxfp8_rceil", 16), "") << "which is not asked";
  op = call_of_codes();
  op.padding = GroupPadding::alignment;
  op.alignment = 16;
  EXPECT_EQ(said(op), "") << "the gradient of the weight is of bf16";
}

}  // namespace linear_checks_test
}  // namespace mxo
