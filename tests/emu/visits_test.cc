// Rows of gates against their elements; NaN of gates, of routers and of their gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "emu/reference/router_gradients.h"
#include "emu/reference/swiglu.h"
#include "formats/tensor.h"

namespace mxo {
namespace {

constexpr Index kRows = 2;
constexpr Index kWidth = 3;

template <typename T>
Tensor waves(Dtype dtype, std::vector<Index> shape, float phase) {
  Tensor t(dtype, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<T>()[i] = from_float<T>(2.0f * std::sin(phase + static_cast<float>(i)));
  }
  return t;
}
Tensor sevens(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  std::fill_n(t.as<float>(), t.elements(), 7.0f);
  return t;
}
constexpr Halves kHalves[] = {Halves::gate_first, Halves::up_first, Halves::interleaved,
                              Halves::gate_only};

/// Element (r, f) of x as a gate sees it.
template <typename T>
GateElement element_of(const GateRule& gate, const Tensor& x, Index r, Index f) {
  const HalvesColumns at = columns_of_halves(gate.halves, f, kWidth);
  const T* row = x.as<T>() + r * x.extent(1);
  return {gate, std::is_same_v<T, F16>, to_float(row[at.a]),
          gate.halves == Halves::gate_only ? 1.0f : to_float(row[at.b])};
}

template <typename T>
void expect_forward(Dtype dtype, const GateRule& gate, bool weighted) {
  const Tensor x = waves<T>(dtype, {kRows, kWidth * halves_of(gate)}, 0.5f);
  const Tensor probs = waves<float>(Dtype::f32, {kRows}, 1.0f);
  Tensor y = sevens({kRows, kWidth});
  const Swiglu op{x.operand(), weighted ? probs.operand() : Operand{}, y.result(), gate};
  visit_swiglu(op, [](auto row) {
    for (Index r = 0; r < kRows; ++r) row(r);
  });
  for (Index i = 0; i < y.elements(); ++i) {
    const float gated = element_of<T>(gate, x, i / kWidth, i % kWidth).gated();
    EXPECT_EQ(y.as<float>()[i], weighted ? gated * probs.as<float>()[i / kWidth] : gated) << i;
  }
}

TEST(SwigluVisits, EveryOrderOfHalvesIsFound) {
  for (const Halves halves : kHalves) {
    for (const bool weighted : {true, false}) {
      expect_forward<float>(Dtype::f32, {.halves = halves}, weighted);
      // Steps in 16 bits are f16 where x is, else bf16.
      const GateRule every{.halves = halves, .bf16_steps = Bf16Steps::every};
      expect_forward<F16>(Dtype::f16, every, weighted);
      expect_forward<BF16>(Dtype::bf16, every, weighted);
    }
  }
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
