// Gradients of a router's tokens and of its gate, row by row, against plain sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "emu/reference/router_gradients.h"
#include "formats/tensor.h"

namespace mxo {
namespace {

constexpr Index kTokens = 2;
constexpr Index kExperts = 3;
constexpr Index kWidth = 5;

Tensor floats(std::vector<Index> shape, float phase) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<float>()[i] = std::sin(phase + static_cast<float>(i));
  }
  return t;
}
Tensor narrow(const Tensor& wide) {
  Tensor t(Dtype::bf16, wide.shape());
  for (Index i = 0; i < t.elements(); ++i) t.as<BF16>()[i] = encode<kBF16>(wide.as<float>()[i]);
  return t;
}
Tensor sevens(Index rows) {
  Tensor t(Dtype::f32, {rows, kWidth});
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

TEST(RouterVisits, TokensAddTheirExpertsRows) {
  const Tensor dlogits = floats({kTokens, kExperts}, 0.5f);
  const Tensor router = narrow(floats({kExperts, kWidth}, 1.5f));
  Tensor dx = sevens(kTokens);
  every_token({dlogits.operand(), router.operand(), {}, dx.result(), {}});
  for (Index t = 0; t < kTokens; ++t) {
    for (Index d = 0; d < kWidth; ++d) {
      float sum = 0.0f;
      for (Index e = 0; e < kExperts; ++e) {
        sum += dlogits.as<float>()[t * kExperts + e] * decode(router.as<BF16>()[e * kWidth + d]);
      }
      EXPECT_EQ(dx.as<float>()[t * kWidth + d], sum) << t << " " << d;
    }
  }
}

TEST(RouterVisits, ExpertsAddTheirTokensRows) {
  const Tensor dlogits = floats({kTokens, kExperts}, 0.5f);
  const Tensor x = narrow(floats({kTokens, kWidth}, 2.5f));
  Tensor drouter = sevens(kExperts);
  every_expert({dlogits.operand(), {}, x.operand(), {}, drouter.result()});
  for (Index e = 0; e < kExperts; ++e) {
    for (Index d = 0; d < kWidth; ++d) {
      float sum = 0.0f;
      for (Index t = 0; t < kTokens; ++t) {
        sum += dlogits.as<float>()[t * kExperts + e] * decode(x.as<BF16>()[t * kWidth + d]);
      }
      EXPECT_EQ(drouter.as<float>()[e * kWidth + d], sum) << e << " " << d;
    }
  }
}

TEST(RouterVisits, EveryNanIsTheCanonicalOne) {
  Tensor dlogits = floats({kTokens, kExperts}, 0.5f);
  std::fill_n(dlogits.as<float>(), dlogits.elements(), bit_cast<float>(0xFFC00001u));
  const Tensor router = floats({kExperts, kWidth}, 1.5f), x = floats({kTokens, kWidth}, 2.5f);
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
