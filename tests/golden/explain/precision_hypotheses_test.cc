// Operands rounded before they are used: of which it is thought, in which words, and what they are.
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

CausesListed roundings_of(const Call& call) { return {call, add_precision_hypotheses}; }

Call with(const char* op, const char* operand, Tensor t) {
  Call call{op, {}, {}};
  call.replace(operand, std::move(t));
  return call;
}

/// Numbers that bf16 rounds, and that f16 keeps, cuts or loses.
Tensor numbers() { return floats({4}, {1 + 0x1.8p-8f, 1 + 0x1p-10f, 70000, -0x1p-30f}); }
const Numbers kInBf16{1 + 0x1p-7, 1, 70144, -0x1p-30};
const Numbers kInF16{1 + 0x1.8p-8, 1 + 0x1p-10, HUGE_VAL, -0.0};

TEST(PrecisionHypotheses, OfOperandsInF32) {
  for (const char* op : {"swiglu", "quantize"}) {
    const CausesListed causes = roundings_of(with(op, "x", numbers()));
    EXPECT_EQ(causes.phrases(),
              (Words{"x is rounded to bf16 first", "x is cut to bf16 first, toward zero",
                     "x is rounded to f16 first"}));
    EXPECT_EQ(operand_if(causes, "x=bf16", "x"), kInBf16);
    EXPECT_EQ(operand_if(causes, "x=bf16_cut", "x"), (Numbers{1, 1, 69632, -0x1p-30}));
    EXPECT_EQ(operand_if(causes, "x=f16", "x"), kInF16);
    for (const Hypothesis& h : causes.list) EXPECT_EQ(h.stage, Stage::input);
  }
  const CausesListed logits = roundings_of(with("route", "logits", numbers()));
  EXPECT_EQ(logits.phrases(),
            (Words{"logits are rounded to bf16 first", "logits are cut to bf16 first, toward zero",
                   "logits are rounded to f16 first"}));
  EXPECT_EQ(operand_if(logits, "logits=f16", "logits"), kInF16);
  EXPECT_EQ(roundings_of(with("swiglu", "x", Tensor(Dtype::bf16, {4}))).list.size(), 0u);
  EXPECT_EQ(roundings_of(with("swiglu", "x", Tensor(Dtype::f16, {4}))).list.size(), 0u);
  EXPECT_EQ(roundings_of({"quantize", {}, {}}).list.size(), 0u);
}

TEST(PrecisionHypotheses, OfOperandsAskTheCall) {
  const CausesListed causes = roundings_of(with("swiglu", "x", numbers()));
  Call other{"swiglu", {}, {}};
  EXPECT_FALSE(causes.at("x=bf16").alter(other));
  other.replace("x", Tensor(Dtype::bf16, {4}));
  EXPECT_FALSE(causes.at("x=bf16").alter(other));
}

/// What comes of f16 is more than bf16 can say.
TEST(PrecisionHypotheses, OfQuantisersOfF16) {
  const Tensor x = tensor_from<F16>(Dtype::f16, {1, 2},
                                    {encode<kF16>(1 + 0x1.8p-8f), encode<kF16>(-0x1.8p-20f)});
  const CausesListed causes = roundings_of(with("quantize", "x", x));
  EXPECT_EQ(causes.phrases(), Words{"x is rounded to bf16 first"});
  const Call other = causes.altered("x=bf16").value();
  EXPECT_EQ(other.input("x").dtype(), Dtype::f32);
  EXPECT_EQ(other.input("x").shape(), (std::vector<Index>{1, 2}));
  EXPECT_EQ(plain_numbers(other.input("x")), (Numbers{1 + 0x1p-7, -0x1.8p-20}));
}

/// x of two lines and w of one, with scales of f32.
Call scaled(std::initializer_list<float> x, float w) {
  Call call = coded_product(2, 1, 1);
  call.replace("x.scales", floats({2, 1}, x));
  call.replace("w.scales", floats({1, 1, 1}, {w}));
  return call;
}

TEST(PrecisionHypotheses, OfScalesOfBothSides) {
  const CausesListed causes = roundings_of(scaled({1 + 0x1.8p-8f, 1 + 0x1.8p-11f}, 3 + 0x1p-10f));
  EXPECT_EQ(causes.phrases(), (Words{"the scales of x are rounded to bf16 first",
                                     "the scales of w are rounded to bf16 first",
                                     "the scales of both sides are rounded to bf16 first",
                                     "the scales of x are rounded to f16 first",
                                     "the scales of w are rounded to f16 first",
                                     "the scales of both sides are rounded to f16 first"}));
  EXPECT_EQ(causes.names("x."), (Words{"x.scales=bf16", "x.scales=f16"}));
  for (const Hypothesis& h : causes.list) {
    EXPECT_TRUE(h.local);
    EXPECT_EQ(h.stage, Stage::input);
  }
  EXPECT_EQ(operand_if(causes, "x.scales=bf16", "x.scales"), (Numbers{1 + 0x1p-7, 1}));
  EXPECT_EQ(operand_if(causes, "x.scales=f16", "x.scales"), (Numbers{1 + 0x1.8p-8, 1 + 0x1p-10}));
  EXPECT_EQ(operand_if(causes, "x.scales=f16", "w.scales"), Numbers{3 + 0x1p-10});
  const Call both = causes.altered("scales=bf16").value();
  EXPECT_EQ(plain_numbers(both.input("x.scales")), (Numbers{1 + 0x1p-7, 1}));
  EXPECT_EQ(plain_numbers(both.input("w.scales")), Numbers{3});
  for (const char* name : {"x.scales", "w.scales"}) {
    Call without = causes.call;
    without.inputs.erase(name);
    EXPECT_FALSE(causes.at("scales=bf16").alter(without)) << name;
  }
}

TEST(PrecisionHypotheses, OfScalesAreOfSidesThatHaveThem) {
  Call call = scaled({1, 2}, 3);
  call.replace("x.scales", Tensor(Dtype::u8, {2, 1}));
  EXPECT_EQ(roundings_of(call).names(), (Words{"w.scales=bf16", "w.scales=f16"}));
  call = scaled({1, 2}, 3);
  call.inputs.erase("w.scales");
  EXPECT_EQ(roundings_of(call).names(), (Words{"x.scales=bf16", "x.scales=f16"}));
  EXPECT_EQ(roundings_of(lines_by_lines({2}, 2, 2)).list.size(), 0u) << "x is no scale";
}

/// Who takes an f16 of a scale that has none would have seen that.
TEST(PrecisionHypotheses, OfScalesAreThoseThatATypeHolds) {
  const auto f16 = [](float scale) {
    return roundings_of(scaled({1, scale}, 1)).find("x.scales=f16") != nullptr;
  };
  EXPECT_TRUE(f16(0));
  EXPECT_TRUE(f16(65504));
  EXPECT_TRUE(f16(0x1p-24f));
  EXPECT_TRUE(f16(std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(f16(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_FALSE(f16(65520));
  EXPECT_FALSE(f16(0x1p-26f));
  const CausesListed causes = roundings_of(scaled({70000, 1}, 1));
  EXPECT_EQ(causes.names("x."), Words{"x.scales=bf16"});
  EXPECT_EQ(causes.names("scales="), Words{"scales=bf16"});
}

TEST(PrecisionHypotheses, OfScalesToDequantise) {
  const Tensor scales = floats({5}, {1 + 0x1.8p-8f, 3, 0x1.6p-3f, 0, -3});
  const CausesListed causes = roundings_of(with("dequantize", "scales", scales));
  EXPECT_EQ(causes.phrases(), (Words{"the scales are rounded to bf16 first",
                                     "the scales are cut to bf16 first, toward zero",
                                     "the scales are rounded to f16 first",
                                     "the scales are cut to powers of two first",
                                     "the scales are rounded up to powers of two first",
                                     "the scales are rounded to the nearest power of two first"}));
  const auto seen = [&](const char* name) { return operand_if(causes, name, "scales"); };
  EXPECT_EQ(seen("scales=bf16"), (Numbers{1 + 0x1p-7, 3, 0x1.6p-3, 0, -3}));
  EXPECT_EQ(seen("scales=bf16_cut"), (Numbers{1, 3, 0x1.6p-3, 0, -3}));
  EXPECT_EQ(seen("scales=f16"), (Numbers{1 + 0x1.8p-8, 3, 0x1.6p-3, 0, -3}));
  EXPECT_EQ(seen("scales=down"), (Numbers{1, 2, 0x1p-3, 0, -3}));
  EXPECT_EQ(seen("scales=up"), (Numbers{2, 4, 0x1p-2, 0, -3}));
  EXPECT_EQ(seen("scales=nearest"), (Numbers{1, 4, 0x1p-3, 0, -3}));
  // Neighbours of a power are not it.
  const CausesListed near = roundings_of(
      with("dequantize", "scales", floats({2}, {1024 * (1 - 0x1p-24f), 1024 * (1 + 0x1p-23f)})));
  EXPECT_EQ(operand_if(near, "scales=down", "scales"), (Numbers{512, 1024}));
  EXPECT_EQ(operand_if(near, "scales=up", "scales"), (Numbers{1024, 2048}));
  for (const Hypothesis& h : causes.list) EXPECT_EQ(h.stage, Stage::input);
  EXPECT_EQ(roundings_of(with("dequantize", "scales", Tensor(Dtype::u8, {3}))).list.size(), 0u);
  EXPECT_EQ(roundings_of({"dequantize", {}, {}}).list.size(), 0u);
  EXPECT_EQ(roundings_of(with("cast", "scales", scales)).list.size(), 0u);
}

}  // namespace
}  // namespace mxo
