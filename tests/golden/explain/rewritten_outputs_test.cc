// Right numbers that were written wrongly: which are thought of, and what they make of an output.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Values = std::vector<float>;

CausesListed outputs_of(const Call& call) { return {call, add_output_hypotheses}; }

NamedTensors one(const char* name, Tensor t) {
  NamedTensors out;
  out.emplace(name, std::move(t));
  return out;
}

/// Elements of f32, bf16 or a byte.
Values values_of(const Tensor& t) {
  Values values;
  for (Index i = 0; i < t.elements(); ++i) {
    values.push_back(t.dtype() == Dtype::f32    ? t.as<float>()[i]
                     : t.dtype() == Dtype::bf16 ? decode(t.as<BF16>()[i])
                                                : static_cast<float>(t.as<std::uint8_t>()[i]));
  }
  return values;
}

/// What a cause makes of this output; nothing where it says nothing of it.
Values made(const CausesListed& causes, const char* cause, const char* name, Tensor t) {
  const auto out = causes.rewritten(cause, one(name, std::move(t)));
  return out ? values_of(out->at(name)) : Values{};
}

/// One and a few halves of the last bit of bf16, and a bit of f16.
Tensor sums() {
  return floats({2, 3}, {1 + 0x1p-8f, 1 + 0x1.8p-7f, -1 - 0x1.fp-8f, 1 + 0x1.01p-8f, 70000.0f,
                         1 + 0x1p-8f + 0x1p-11f});
}

TEST(RewrittenOutputs, OfSumsAreRoundedOtherwise) {
  for (const char* name : {"y", "dw"}) {
    const CausesListed causes = outputs_of(coded_product(4, 4, 1));
    EXPECT_EQ(made(causes, "out=truncated", name, sums()),
              (Values{1, 1 + 0x1p-7f, -1, 1, 69632, 1}));
    EXPECT_EQ(made(causes, "out=twice", name, sums()),
              (Values{1, 1 + 0x1p-6f, -1 - 0x1p-7f, 1 + 0x1p-7f, 70144, 1 + 0x1p-7f}));
    EXPECT_EQ(made(causes, "out=f16", name, sums()),
              (Values{1, 1 + 0x1p-6f, -1 - 0x1p-7f, 1, HUGE_VALF, 1}));
    const auto out = causes.rewritten("out=truncated", one(name, sums()));
    EXPECT_EQ(out->at(name).shape(), (std::vector<Index>{2, 3}));
  }
}

TEST(RewrittenOutputs, OfSumsAreThoseOfProductsInBf16) {
  const CausesListed causes = outputs_of(coded_product(4, 4, 1));
  EXPECT_EQ(causes.phrases("out="),
            (Words{"the output is truncated to bf16 rather than rounded",
                   "the sum is rounded to f32 before it is rounded to bf16",
                   "the sum is rounded to f16 before it is rounded to bf16"}));
  for (const std::string& name : causes.names("out=")) {
    EXPECT_EQ(causes.altered(name).value().set.text("out", ""), "f32") << name;
    EXPECT_FALSE(causes.rewritten(name, one("y", Tensor(Dtype::bf16, {2, 3}))));
  }
  Call wide = coded_product(4, 4, 1);
  wide.set.set("out", "f32");
  EXPECT_EQ(outputs_of(wide).names("out="), Words{});
  EXPECT_EQ(outputs_of({"cast", {}, {}}).names("out="), Words{});
}

Call gate() {
  Call call{"swiglu", {}, {}};
  call.replace("x", floats({2, 4}, {1, -2, 3, 5, 0.5f, 4, -1, 7}));
  return call;
}

TEST(RewrittenOutputs, OfSiluAreRoundedBeforeUp) {
  const auto silu = [](float a) {
    return decode(encode<kBF16>(static_cast<float>(a / (1.0 + std::exp(-static_cast<double>(a))))));
  };
  const Values expected{silu(1) * 3, silu(-2) * 5, silu(0.5f) * -1, silu(4) * 7};
  EXPECT_EQ(made(outputs_of(gate()), "silu=bf16", "y", Tensor(Dtype::f32, {2, 2})), expected);
  Call call = gate();
  call.replace("probs", floats({2}, {1, 1}));
  EXPECT_EQ(made(outputs_of(call), "silu=bf16", "y", Tensor(Dtype::f32, {2, 2})), Values{});
  EXPECT_EQ(made(outputs_of(gate()), "silu=bf16", "z", Tensor(Dtype::f32, {2, 2})), Values{});
}

TEST(RewrittenOutputs, OfCodesOfAnotherBiasAreHalved) {
  const CausesListed causes = outputs_of({"dequantize", {}, {}});
  EXPECT_EQ(made(causes, "value.power_of_2", "x", floats({3}, {3, -4, 0})), (Values{1.5f, -2, 0}));
  const Tensor narrow =
      tensor_from<BF16>(Dtype::bf16, {2}, {encode<kBF16>(3.0f), encode<kBF16>(-4.0f)});
  EXPECT_EQ(made(causes, "value.power_of_2", "x", narrow), (Values{1.5f, -2}));
  EXPECT_EQ(made(causes, "value.power_of_2", "y", narrow), Values{});
}

/// Codes [2, 3] as they are, in the rows of [3, 2].
TEST(RewrittenOutputs, OfTransposedCodesKeepTheirExponents) {
  Call call{"scaling_aware_transpose", {}, {}};
  call.replace("codes", tensor_from<std::uint8_t>(Dtype::u8, {2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto of = [](const Call& given, std::vector<Index> shape, const char* name = "codes") {
    return made(outputs_of(given), "codes=not_moved", name, Tensor(Dtype::u8, std::move(shape)));
  };
  EXPECT_EQ(of(call, {3, 2}), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(of(call, {3, 3}), Values{}) << "of another size";
  EXPECT_EQ(of(call, {3, 2}, "scales"), Values{});
  call.op = "decode";
  EXPECT_EQ(of(call, {3, 2}), Values{}) << "of another operator";
}

/// Groups of 1, 0 and 3 rows, each padded to two, or to four.
TEST(RewrittenOutputs, OfPaddingHoldTheRowsThatFollow) {
  Call call{"pad_groups", {}, {}};
  call.replace("x", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  call.replace("group_ends", ends_at({1, 1, 4}));
  const auto of = [&](const Call& given) {
    NamedTensors out = one("y", floats({8, 2}, {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8, 0, 0}));
    out.emplace("padded_starts", ends_at({0, 2, 4}));
    out.emplace("padded_ends", ends_at({2, 4, 8}));
    const auto came = outputs_of(given).rewritten("padding=stale", std::move(out));
    return came ? values_of(came->at("y")) : Values{};
  };
  EXPECT_EQ(of(call), (Values{1, 2, 3, 4, 3, 4, 5, 6, 3, 4, 5, 6, 7, 8, 0, 0}))
      << "behind the last row nothing follows";
  call.replace("x", Tensor(Dtype::f32, {0, 2}));
  EXPECT_EQ(of(call), Values{});
}

}  // namespace
}  // namespace mxo
