// Rows combined by slots: sums in order, three kinds of steps, and gradients.
#include <gtest/gtest.h>

#include "emu/communicators.h"
#include "emu/reference/combine_rows.h"
#include "tests/support/named_calls.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"

namespace mxo::test::combine_visits_test {
namespace {

constexpr Index kRows = 5;
constexpr Index kTokens = 2;
constexpr Index kSlots = 3;
constexpr Index kWidth = 300;  // more than a strip

Tensor slots_of_tokens() { return integers_of({kTokens, kSlots}, {3, -1, 0, 4, 1, -1}); }
Tensor weights_of_tokens() {
  Tensor t(Dtype::f32, {kTokens, kSlots});
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = 0.37f + 0.21f * static_cast<float>(i);
  return t;
}
float value(Index i) { return std::sin(static_cast<float>(i)); }

template <typename T>
Tensor filled(Dtype dtype, Index rows) {
  Tensor t(dtype, {rows, kWidth});
  for (Index i = 0; i < t.elements(); ++i) t.as<T>()[i] = from_float<T>(value(i));
  return t;
}

/// The definition, of rows whose values are floats of type R.
template <typename R>
float combined(const Tensor& rows, const float* weights, CombineSteps steps, Index t, Index d) {
  const Tensor slots = slots_of_tokens();
  const auto step = [&](float x) {
    if (steps != CombineSteps::bf16) return x;
    return std::is_same_v<R, F16> ? f16(x) : bf16(x);
  };
  float acc = 0.0f;
  for (Index s = 0; s < kSlots; ++s) {
    const Index row = slots.as<std::int32_t>()[t * kSlots + s];
    if (row < 0) continue;
    const float x = to_float(rows.as<R>()[row * kWidth + d]);
    const float weight = weights != nullptr ? weights[t * kSlots + s] : 1.0f;
    acc = steps == CombineSteps::fused ? std::fma(x, weight, acc) : step(acc + step(x * weight));
  }
  return acc;
}

template <typename R, typename Y>
void expect_combined(Dtype from, Dtype to, bool weighted, CombineSteps steps) {
  const Tensor rows = filled<R>(from, kRows), slots = slots_of_tokens();
  const Tensor weights = weights_of_tokens();
  Tensor out = filled<Y>(to, kTokens);
  const CombineRows op{rows.operand(), slots.operand(), weighted ? weights.operand() : Operand{},
                       out.result(), steps};
  visit_combine(op, [&](auto token) {
    for (Index t = 0; t < kTokens; ++t) token(t);
  });
  for (Index i = 0; i < out.elements(); ++i) {
    const float sum =
        combined<R>(rows, weighted ? weights.as<float>() : nullptr, steps, i / kWidth, i % kWidth);
    ASSERT_EQ(to_float(out.as<Y>()[i]), to_float(from_float<Y>(sum))) << i;
  }
}

TEST(CombineVisits, AddTheRowsOfTheSlotsInOrder) {
  for (const bool weighted : {true, false}) {
    for (const CombineSteps steps : {CombineSteps::f32, CombineSteps::bf16, CombineSteps::fused}) {
      expect_combined<float, float>(Dtype::f32, Dtype::f32, weighted, steps);
      expect_combined<BF16, float>(Dtype::bf16, Dtype::f32, weighted, steps);
      expect_combined<F16, float>(Dtype::f16, Dtype::f32, weighted, steps);
      expect_combined<F16, BF16>(Dtype::f16, Dtype::bf16, weighted, steps);
    }
  }
}

TEST(CombineVisits, GradientsAreProductsWithTheWeights) {
  const Tensor rows = filled<BF16>(Dtype::bf16, kRows), slots = slots_of_tokens();
  const Tensor weights = weights_of_tokens(), dout = filled<float>(Dtype::f32, kTokens);
  for (const bool weighted : {true, false}) {
    Tensor drows = filled<BF16>(Dtype::bf16, kRows);
    Tensor dweights(Dtype::f32, {kTokens, kSlots});
    std::fill_n(dweights.as<float>(), dweights.elements(), 7.0f);
    const CombineRowsBackward op{weighted ? rows.operand() : Operand{},
                                 slots.operand(),
                                 weighted ? weights.operand() : Operand{},
                                 dout.operand(),
                                 drows.result(),
                                 weighted ? dweights.result() : Result{}};
    visit_combine_backward(op, [&](auto token) {
      for (Index t = 0; t < kTokens; ++t) token(t);
    });
    for (Index i = 0; i < slots.elements(); ++i) {
      const Index row = slots.as<std::int32_t>()[i];
      float sum = 0.0f;
      for (Index d = 0; row >= 0 && d < kWidth; ++d) {
        const float g = dout.as<float>()[i / kSlots * kWidth + d];
        const float gradient = weighted ? g * weights.as<float>()[i] : g;
        ASSERT_EQ(drows.as<BF16>()[row * kWidth + d], encode<kBF16>(gradient)) << row << " " << d;
        sum += g * decode(rows.as<BF16>()[row * kWidth + d]);
      }
      EXPECT_EQ(dweights.as<float>()[i], weighted ? sum : 7.0f) << i;
    }
  }
}

/// What clear_unnamed leaves of rows of ones, a letter a row: a zero or a one throughout.
std::string rows_left(std::initializer_list<std::int32_t> named) {
  const Tensor slots = integers_of({3, 2}, named);
  Tensor drows(Dtype::bf16, {kRows, 4});
  std::fill_n(drows.as<BF16>(), drows.elements(), encode<kBF16>(1.0f));
  CombineRowsBackward op;
  op.slots = slots.operand();
  op.drows = drows.result();
  clear_unnamed(op);
  std::string text;
  for (Index r = 0; r < kRows; ++r) {
    const BF16* row = drows.as<BF16>() + 4 * r;
    const bool alike = std::all_of(row, row + 4, [&](BF16 x) { return x == row[0]; });
    text += !alike ? '?' : row[0] == BF16{0} ? '0' : '1';
  }
  return text;
}

TEST(CombineVisits, RowsThatNoSlotNamesAreCleared) {
  EXPECT_EQ(rows_left({0, -1, -1, -1, -1, 3}), "10010");
  EXPECT_EQ(rows_left({-1, 2, 4, -1, -1, -1}), "00101");
  EXPECT_EQ(rows_left({-1, -1, -1, 1, 2, -1}), "01100");
  EXPECT_EQ(rows_left({-1, -1, -1, -1, -1, -1}), "00000");
}

TEST(CombineVisits, TakeTheStepsThatTheCatalogueNames) {
  constexpr Index kMany = 40;
  Tensor experts(Dtype::i32, {kMany, kSlots});
  for (Index i = 0; i < experts.elements(); ++i)
    experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % kSlots);
  for (const Dtype type : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    const NamedTensors in{{"rank0.y", random_floats(type, {kMany * kSlots, 24}, 25)},
                          {"rank0.weights", normal_floats({kMany, kSlots}, 26, 1.0f)},
                          {"rank0.experts", experts}};
    const auto combined = [&](const char* backend, const std::string& steps) {
      return call_operator(*make_backend(backend, 2), "combine", in,
                           settings({"experts=3", "precision=bf16", "steps=" + steps}),
                           make_world("in_process").get());
    };
    for (const char* steps : {"f32", "bf16", "fused"}) {
      const NamedTensors out = combined("reference", steps);
      EXPECT_EQ(out.at("rank0.out").dtype(), type);
      EXPECT_TRUE(same_bytes(out, combined("cpu", steps))) << steps;
      const bool plain = std::string(steps) == "f32";
      if (type == Dtype::f32 || std::string(steps) == "bf16") {  // 16 bits hide a fused rounding
        EXPECT_EQ(same_bytes(out, combined("cpu", "f32")), plain) << steps;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::combine_visits_test
