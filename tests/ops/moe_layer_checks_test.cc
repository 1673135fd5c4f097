// A layer of experts and its gradients with one field wrong: refused by name, before any step.
#include "formats/tensor.h"
#include "ops/moe_layer.h"
#include "tests/ops/right_call.h"
#include "tests/ops/told_communicator.h"

namespace mxo {

template <typename O, typename Fn>
requires std::same_as<std::remove_const_t<O>, MoeLayer>
void each_field(O& op, const Fn& fn) {
  each_named("x, router, logits.bias, w1, w2, w1.bias, w2.bias, shared.w1, shared.w2, y", fn, op.x,
             op.router, op.logits_bias, op.w1, op.w2, op.w1_bias, op.w2_bias, op.shared_w1,
             op.shared_w2, op.y);
}

namespace moe_layer_checks_test {

using M = MoeLayer;

/// A call, and the gradients of it.
struct Gradients : MoeLayer {
  Operand dy;
  Result dx, drouter, dlogits_bias, dw1, dw2, dw1_bias, dw2_bias, dshared_w1, dshared_w2;
};
using G = Gradients;

template <typename O, typename Fn>
requires std::same_as<std::remove_const_t<O>, G>
void each_field(O& op, const Fn& fn) {
  each_named("x, router, logits.bias, w1, w2, w1.bias, w2.bias, shared.w1, shared.w2", fn, op.x,
             op.router, op.logits_bias, op.w1, op.w2, op.w1_bias, op.w2_bias, op.shared_w1,
             op.shared_w2);
  each_named("dy, dx, drouter, logits.dbias, dw1, dw2, w1.dbias, w2.dbias, shared.dw1, shared.dw2",
             fn, op.dy, op.dx, op.drouter, op.dlogits_bias, op.dw1, op.dw2, op.dw1_bias,
             op.dw2_bias, op.dshared_w1, op.dshared_w2);
}

/// What a step refuses is past the checks of the layer.
template <typename Fn>
void past_the_checks(Fn fn) {
  try {
    fn();
  } catch (const Error& error) {
    if (std::string(error.what()).starts_with("moe_layer: ")) throw;
    throw Error(Fault::unsupported, error.what());
  }
}

void forward(Backend& backend, const M& op) {
  AloneCommunicator alone;
  past_the_checks([&] { moe_layer(backend, alone, op); });
}

void backward(Backend& backend, const G& op) {
  AloneCommunicator alone;
  SavedMoeLayer saved;
  saved.call = op;
  past_the_checks([&] {
    moe_layer_backward(backend, alone, saved,
                       {op.dy, op.dx, op.drouter, op.dlogits_bias, op.dw1, op.dw2, op.dw1_bias,
                        op.dw2_bias, op.dshared_w1, op.dshared_w2});
  });
}

/// Four experts of F 32, a shared one of S 96, on eight tokens of D 64.
struct MoeChecks : testing::Test {
  Tensor x{Dtype::bf16, {8, 64}}, router{Dtype::bf16, {4, 64}}, logits_bias{Dtype::f32, {4}};
  Tensor w1{Dtype::bf16, {4, 64, 64}}, w2{Dtype::f32, {4, 64, 32}}, w1_bias{Dtype::f32, {4, 64}};
  Tensor w2_bias{Dtype::bf16, {4, 64}}, shared_w1{Dtype::bf16, {192, 64}};
  Tensor shared_w2{Dtype::bf16, {64, 96}}, y{Dtype::bf16, {8, 64}};
  Tensor dy{Dtype::bf16, {8, 64}}, dx{Dtype::bf16, {8, 64}}, drouter{Dtype::f32, {4, 64}};
  Tensor dlogits_bias{Dtype::f32, {4}}, dw1{Dtype::bf16, {4, 64, 64}}, dw2{Dtype::f32, {4, 64, 32}};
  Tensor dw1_bias{Dtype::f32, {4, 64}}, dw2_bias{Dtype::bf16, {4, 64}};
  Tensor dshared_w1{Dtype::bf16, {192, 64}}, dshared_w2{Dtype::bf16, {64, 96}};

  M call() const {
    M op;
    op.x = x.operand();
    op.router = router.operand();
    op.w1 = w1.operand();
    op.w2 = w2.operand();
    op.experts = 4;
    op.top_k = 2;
    op.y = const_cast<Tensor&>(y).result();
    return op;
  }
  G gradients() {
    G op;
    static_cast<M&>(op) = call();
    op.dy = dy.operand();
    op.dx = dx.result();
    return op;
  }
  void give_all(M& op) const {
    op.logits_bias = logits_bias.operand();
    op.w1_bias = w1_bias.operand();
    op.w2_bias = w2_bias.operand();
    op.shared_w1 = shared_w1.operand();
    op.shared_w2 = shared_w2.operand();
  }
};

TEST_F(MoeChecks, RefuseWrongFields) {
  M op = call();
  give_all(op);
  expect_checked("moe_layer", forward, op);
}

TEST_F(MoeChecks, RefuseWrongFieldsOfGradients) {
  G op = gradients();
  give_all(op);
  op.drouter = drouter.result();
  op.dlogits_bias = dlogits_bias.result();
  op.dw1 = dw1.result();
  op.dw2 = dw2.result();
  op.dw1_bias = dw1_bias.result();
  op.dw2_bias = dw2_bias.result();
  op.dshared_w1 = dshared_w1.result();
  op.dshared_w2 = dshared_w2.result();
  // What forward has checked.
  expect_checked(
      "moe_layer", backward, op,
      {"x", "router", "logits.bias", "w1", "w2", "w1.bias", "w2.bias", "shared.w1", "shared.w2"});
}

TEST_F(MoeChecks, RefuseGradientsOfWhatTheCallHasNot) {
  const RightCall<G> right{"moe_layer", backward, gradients()};
  EXPECT_EQ(right.complaint(right.op), "");
  right.expect_refusal([&](G& g) { g.dshared_w1 = dshared_w1.result(); },
                       "shared.dw1: needs a call with shared.w1");
  right.expect_refusal([&](G& g) { g.dw2_bias = dw2_bias.result(); },
                       "w2.dbias: needs a call with the bias");
  right.expect_refusal([&](G& g) { g.dlogits_bias = dlogits_bias.result(); },
                       "logits.dbias: needs a call with the bias");
  right.expect_refusal(
      [](G& g) { g.scores = MoeScores::first_product; },
      "scores: found those of a product, gradients need combine, swiglu, input or input_bf16");
  right.expect_refusal([](G& g) { g.dy.stride[0] = 65; }, "dy: needs contiguous rows");
}

TEST_F(MoeChecks, SayWhatIsWrong) {
  RightCall<M> right{"moe_layer", forward, call()};
  EXPECT_EQ(right.complaint(right.op), "");
  right.expect_refusal([](M& m) { m.x.stride[0] = 65; }, "x: needs contiguous rows");
  right.expect_refusal([](M& m) { m.w1.extent[1] = 63; },
                       "w1: the number of rows, 2F, is 63, not a multiple of 2");
  right.op.pipeline = MoePipeline::flow;
  EXPECT_EQ(right.complaint(right.op), "");
  right.expect_refusal([](M& m) { m.format = Dtype::e5m2; },
                       "format: found e5m2, pipeline flow needs e4m3 or e4m3fnuz");
  right.expect_refusal(
      [](M& m) { m.scores = MoeScores::second_product; },
      "scores: found those of a product, pipeline flow has combine, swiglu and input");
  right.op = call();
  give_all(right.op);
  right.expect_refusal([](M& m) { m.shared_w1.extent[0] = 191; },
                       "shared.w1: the number of rows, 2S, is 191, not a multiple of 2");
}

}  // namespace moe_layer_checks_test
}  // namespace mxo
