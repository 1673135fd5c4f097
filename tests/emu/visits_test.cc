// NaN of gates, of routers and of their gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "emu/reference/router_gradients.h"
#include "emu/reference/swiglu.h"
#include "formats/tensor.h"

namespace mxo {
namespace {

Tensor sevens(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  std::fill_n(t.as<float>(), t.elements(), 7.0f);
  return t;
}
TEST(SwigluVisits, EveryNanIsTheCanonicalOne) {
  Tensor x = sevens({1, 2}), dy = sevens({1, 1}), probs = sevens({1});
  Tensor y = sevens({1, 1}), dx = sevens({1, 2}), dprobs = sevens({1});
  x.as<float>()[1] = bit_cast<float>(0xFFC00001u);
  visit_swiglu({x.operand(), probs.operand(), y.result(), {}}, [](auto row) { row(0); });
  visit_swiglu_backward(
      {x.operand(), probs.operand(), dy.operand(), dx.result(), dprobs.result(), {}},
      [](auto row) { row(0); });
  for (const float found : {y.as<float>()[0], dx.as<float>()[0], dprobs.as<float>()[0]}) {
    EXPECT_EQ(bit_cast<std::uint32_t>(found), 0x7FC00000u);
  }
}

constexpr Index kTokens = 2;
constexpr Index kExperts = 3;
constexpr Index kColumns = 5;

Tensor floats(std::vector<Index> shape, float phase) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<float>()[i] = std::sin(phase + static_cast<float>(i));
  }
  return t;
}
Tensor sevens(Index rows) {
  Tensor t(Dtype::f32, {rows, kColumns});
  std::fill_n(t.as<float>(), t.elements(), 7.0f);
  return t;
}

void every_token(const RouterGradients& op) {
  visit_router_dx(op, [](auto token) {
    for (Index t = 0; t < kTokens; ++t) token(t);
  });
}
void every_expert(const RouterGradients& op) {
  visit_router_dw(op, [](auto expert) {
    for (Index e = 0; e < kExperts; ++e) expert(e);
  });
}

TEST(RouterVisits, EveryNanIsTheCanonicalOne) {
  Tensor dlogits = floats({kTokens, kExperts}, 0.5f);
  std::fill_n(dlogits.as<float>(), dlogits.elements(), bit_cast<float>(0xFFC00001u));
  const Tensor router = floats({kExperts, kColumns}, 1.5f), x = floats({kTokens, kColumns}, 2.5f);
  Tensor dx = sevens(kTokens), drouter = sevens(kExperts);
  const RouterGradients op{dlogits.operand(), router.operand(), x.operand(), dx.result(),
                           drouter.result()};
  every_token(op);
  every_expert(op);
  for (const Tensor* found : {&dx, &drouter}) {
    for (Index i = 0; i < found->elements(); ++i) {
      EXPECT_EQ(bit_cast<std::uint32_t>(found->as<float>()[i]), 0x7FC00000u) << i;
    }
  }
}

}  // namespace
}  // namespace mxo
