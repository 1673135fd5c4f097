// A layer of two experts that nothing computes: calls, and the steps recorded of them.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "tests/ops/moe_recorder.h"
#include "tests/ops/told_communicator.h"

namespace mxo {

using Steps = std::vector<std::string>;

/// One rank, on the caller's thread.
struct AloneWorld : World {
  std::string_view name() const override { return "alone"; }
  void run(int ranks, const std::function<void(Communicator&)>& body) override {
    EXPECT_EQ(ranks, 1);
    AloneCommunicator alone;
    body(alone);
  }
};

/// Two experts of F 128 and a shared one of S 64 on three tokens of D 256, two experts each: both
/// have three rows, of 32 or 128 with their padding.
struct MoeCalls : testing::Test {
  Tensor x{Dtype::bf16, {3, 256}}, router{Dtype::bf16, {2, 256}}, router_bias{Dtype::f32, {2}};
  Tensor logits_bias{Dtype::f32, {2}}, w1{Dtype::bf16, {2, 256, 256}};
  Tensor w2{Dtype::bf16, {2, 256, 128}}, w1_bias{Dtype::bf16, {2, 256}};
  Tensor w2_bias{Dtype::bf16, {2, 256}}, sw1{Dtype::bf16, {128, 256}}, sw2{Dtype::bf16, {256, 64}};
  Tensor y{Dtype::bf16, {3, 256}}, dy{Dtype::bf16, {3, 256}}, dx{Dtype::bf16, {3, 256}};
  Tensor drouter{Dtype::f32, {2, 256}}, dlogits_bias{Dtype::f32, {2}};
  Tensor dw1{Dtype::f32, {2, 256, 256}}, dw2{Dtype::f32, {2, 256, 128}};
  Tensor dw1_bias{Dtype::f32, {2, 256}}, dw2_bias{Dtype::f32, {2, 256}};
  Tensor dsw1{Dtype::f32, {128, 256}}, dsw2{Dtype::f32, {256, 64}};
  MoeRecorder recorder;
  AloneCommunicator alone;
  MoeLayer op;
  MoeLayerBackward back;

  MoeCalls() {
    const std::pair<const Tensor&, const char*> known[] = {{x, "x"},
                                                           {router, "router"},
                                                           {router_bias, "router_bias"},
                                                           {logits_bias, "logits_bias"},
                                                           {w1, "w1"},
                                                           {w2, "w2"},
                                                           {w1_bias, "w1_bias"},
                                                           {w2_bias, "w2_bias"},
                                                           {sw1, "sw1"},
                                                           {sw2, "sw2"},
                                                           {y, "y"},
                                                           {dy, "dy"},
                                                           {dx, "dx"},
                                                           {drouter, "drouter"},
                                                           {dlogits_bias, "dlogits_bias"},
                                                           {dw1, "dw1"},
                                                           {dw2, "dw2"},
                                                           {dw1_bias, "dw1_bias"},
                                                           {dw2_bias, "dw2_bias"},
                                                           {dsw1, "dsw1"},
                                                           {dsw2, "dsw2"}};
    for (const auto& [tensor, name] : known) recorder.know(tensor.operand(), name);
    op.x = x.operand();
    op.router = router.operand();
    op.w1 = w1.operand();
    op.w2 = w2.operand();
    op.experts = op.top_k = 2;
    op.y = y.result();
    op.observe = recorder.observer();
    back.dy = dy.operand();
    back.dx = dx.result();
  }
  void share() {
    op.shared_w1 = sw1.operand();
    op.shared_w2 = sw2.operand();
  }
  SavedMoeLayer forward() {
    recorder.steps.clear();
    return moe_layer(recorder, alone, op);
  }
  /// The steps of backward alone.
  Steps backward() {
    const SavedMoeLayer saved = forward();
    recorder.steps.clear();
    moe_layer_backward(recorder, alone, saved, back);
    return recorder.steps;
  }
};

}  // namespace mxo
