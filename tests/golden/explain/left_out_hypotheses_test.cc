// Numbers and biases that are left out, used twice or used elsewhere: which, and what they alter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Values = std::vector<float>;
using Settings = std::map<std::string, std::string, std::less<>>;

Call call_of(const std::string& op, Settings set) { return {op, {}, Parameters(std::move(set))}; }

CausesListed listed(const Call& call) { return {call, add_left_out_hypotheses}; }

/// A parameter of the call where a cause holds.
std::string value_where(const CausesListed& causes, const char* name, const char* key) {
  const auto other = causes.altered(name);
  return other ? std::string(other->set.text(key, "not given")) : "not thought of";
}

/// An operand of the call where a cause holds, as numbers.
Values operand_where(const CausesListed& causes, const char* name, const char* operand,
                     const char* words = "") {
  const auto other = causes.altered(name, words);
  if (!other) return {};
  const Tensor& t = other->input(operand);
  Values values;
  for (Index i = 0; i < t.elements(); ++i) {
    values.push_back(t.dtype() == Dtype::f32 ? t.as<float>()[i] : decode(t.as<BF16>()[i]));
  }
  return values;
}

TEST(LeftOutHypotheses, OfFactorsOfWeights) {
  for (const char* op : {"route", "moe_layer"}) {
    const CausesListed causes = listed(call_of(op, {{"scale", "2.5"}, {"top_k", "2"}}));
    EXPECT_EQ(causes.phrases("scale="), (Words{"the factor of the weights is left out",
                                               "the factor of the weights is applied twice"}));
    EXPECT_EQ(std::stod(value_where(causes, "scale=left_out", "scale")), 1.0);
    EXPECT_EQ(std::stod(value_where(causes, "scale=twice", "scale")), 6.25);
    EXPECT_EQ(value_where(causes, "scale=twice", "top_k"), "2");
    EXPECT_EQ(causes.at("scale=twice").stage, Stage::rule);
    const CausesListed small = listed(call_of(op, {{"scale", "0.00125"}, {"top_k", "2"}}));
    EXPECT_EQ(std::stod(value_where(small, "scale=twice", "scale")), 0.00125 * 0.00125);
    EXPECT_EQ(listed(call_of(op, {{"scale", "1"}})).names("scale=").size(), 0u);
    EXPECT_EQ(listed(call_of(op, {})).names("scale=").size(), 0u);
  }
  EXPECT_EQ(listed(call_of("cast", {{"scale", "2.5"}})).list.size(), 0u);
}

TEST(LeftOutHypotheses, OfAlphaAndTheOffsetOfUp) {
  for (const char* op : {"swiglu", "swiglu_quantize", "moe_layer"}) {
    const CausesListed plain = listed(call_of(op, {}));
    EXPECT_EQ(plain.phrases(),
              (Words{"alpha is 1.702: the gate is a sigma(1.702 a)", "up is raised by 1"}))
        << op;
    EXPECT_EQ(std::stod(value_where(plain, "alpha=1.702", "alpha")), 1.702);
    EXPECT_EQ(std::stod(value_where(plain, "up_offset=1", "up_offset")), 1.0);
    const CausesListed set = listed(call_of(op, {{"alpha", "1.702"}, {"up_offset", "1"}}));
    EXPECT_EQ(set.phrases(), (Words{"alpha is 1: the gate is a sigma(a)", "up is not raised"}));
    EXPECT_EQ(std::stod(value_where(set, "alpha=left_out", "alpha")), 1.0);
    EXPECT_EQ(std::stod(value_where(set, "up_offset=left_out", "up_offset")), 0.0);
    EXPECT_EQ(listed(call_of(op, {{"alpha", "1"}})).names("alpha="), Words{"alpha=1.702"});
  }
}

Call limited(const char* op = "swiglu") {
  Call call = call_of(op, {{"limit", "2"}, {"halves", "gate_first"}});
  call.replace("x", floats({2, 4}, {3, -3, 3, -3, 2.5f, 1, -2.5f, 1}));
  return call;
}

TEST(LeftOutHypotheses, OfLimits) {
  const CausesListed causes = listed(limited());
  EXPECT_EQ(causes.phrases("limit="),
            (Words{"the limit of gate and up is left out",
                   "the gate is held below the limit, and up is not",
                   "up is held between the limits, and the gate is not",
                   "up is held below the limit, and not above its negative"}));
  for (const std::string& name : causes.names("limit=")) {
    EXPECT_EQ(value_where(causes, name.c_str(), "limit"), "not given") << name;
    EXPECT_EQ(value_where(causes, name.c_str(), "halves"), "gate_first") << name;
  }
  EXPECT_EQ(operand_where(causes, "limit=left_out", "x"),
            (Values{3, -3, 3, -3, 2.5f, 1, -2.5f, 1}));
  EXPECT_EQ(operand_where(causes, "limit=gate", "x"), (Values{2, -3, 3, -3, 2, 1, -2.5f, 1}));
  EXPECT_EQ(operand_where(causes, "limit=up", "x"), (Values{3, -3, 2, -2, 2.5f, 1, -2, 1}));
  EXPECT_EQ(operand_where(causes, "limit=top", "x"), (Values{2, -3, 2, -3, 2, 1, -2.5f, 1}));
  EXPECT_EQ(listed(call_of("swiglu", {})).names("limit=").size(), 0u);
}

TEST(LeftOutHypotheses, OfLimitsOfGradients) {
  Call call = limited("swiglu_backward");
  EXPECT_EQ(listed(call).find("limit=gradient"), nullptr);
  call.replace("dy", floats({2, 2}, {1, 1, 1, 1}));
  const CausesListed causes = listed(call);
  ASSERT_NE(causes.find("limit=gradient"), nullptr);
  EXPECT_EQ(causes.at("limit=gradient").phrase,
            "gradients beyond the limit are those at the limit rather than zero");
  EXPECT_EQ(operand_where(causes, "limit=gradient", "x"), (Values{2, -3, 2, -2, 2, 1, -2, 1}));
}

/// Where gate and up lie otherwise, or are made on the way, nothing is known of their elements.
TEST(LeftOutHypotheses, OfLimitsNeedGatesFirst) {
  Call call = limited();
  call.set.set("halves", "up_first");
  EXPECT_FALSE(listed(call).altered("limit=gate"));
  EXPECT_TRUE(listed(call).altered("limit=left_out"));
  call = limited();
  call.inputs.erase("x");
  EXPECT_FALSE(listed(call).altered("limit=gate"));
  EXPECT_EQ(listed(call_of("moe_layer", {{"limit", "2"}})).names("limit="),
            Words{"limit=left_out"});
}

/// NaN is at no side of a limit.
TEST(LeftOutHypotheses, OfLimitsKeepNaN) {
  Call call = limited();
  call.replace("x", floats({1, 2}, {std::numeric_limits<float>::quiet_NaN(), 2}));
  EXPECT_TRUE(std::isnan(operand_where(listed(call), "limit=top", "x")[0]));
}

Call biased(Tensor bias, const char* op = "add_bias") {
  Call call = call_of(op, {});
  call.replace("bias", std::move(bias));
  return call;
}

TEST(LeftOutHypotheses, OfBiases) {
  for (const char* op : {"add_bias", "grouped_linear"}) {
    const CausesListed causes = listed(biased(floats({3}, {1, 2, 4}), op));
    EXPECT_EQ(causes.phrases(), (Words{"the bias is left out", "the bias is added twice",
                                       "the bias of the column before is added",
                                       "the bias of the column after is added"}));
    EXPECT_EQ(operand_where(causes, "bias=left_out", "bias"), (Values{0, 0, 0}));
    EXPECT_EQ(operand_where(causes, "bias=twice", "bias"), (Values{2, 4, 8}));
    EXPECT_EQ(operand_where(causes, "bias=columns", "bias", "before"), (Values{4, 1, 2}));
    EXPECT_EQ(operand_where(causes, "bias=columns", "bias", "after"), (Values{2, 4, 1}));
  }
  EXPECT_EQ(listed(biased(floats({3}, {1, 2, 4}), "moe_layer")).names("bias=").size(), 0u);
  EXPECT_EQ(listed(biased(floats({3}, {1, 2, 4}), "cast")).names("bias=").size(), 0u);
  EXPECT_EQ(listed(call_of("add_bias", {})).list.size(), 0u);
}

/// Adding -0 changes nothing; adding 0 would make 0 of -0.
TEST(LeftOutHypotheses, OfABiasAddsNoZero) {
  const Call other = listed(biased(floats({1}, {1}))).altered("bias=left_out").value();
  EXPECT_TRUE(std::signbit(other.input("bias").as<float>()[0]));
}

TEST(LeftOutHypotheses, OfBiasesOfExperts) {
  Tensor bias(Dtype::bf16, {3, 2});
  for (Index i = 0; i < 6; ++i) bias.as<BF16>()[i] = encode<kBF16>(static_cast<float>(1 << i));
  const CausesListed causes = listed(biased(std::move(bias), "grouped_linear"));
  EXPECT_EQ(
      causes.phrases(),
      (Words{"the bias is left out", "the bias is added twice",
             "the bias of the column before is added", "the bias of the column after is added",
             "the bias of expert 0 is added to every group",
             "the bias of the expert before is added", "the bias of the expert after is added"}));
  EXPECT_EQ(causes.altered("bias=twice").value().input("bias").dtype(), Dtype::bf16);
  EXPECT_EQ(operand_where(causes, "bias=twice", "bias"), (Values{2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(operand_where(causes, "bias=columns", "bias", "after"), (Values{2, 1, 8, 4, 32, 16}));
  EXPECT_EQ(operand_where(causes, "bias=first", "bias"), (Values{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(operand_where(causes, "bias=other_expert", "bias", "before"),
            (Values{16, 32, 1, 2, 4, 8}));
  EXPECT_EQ(operand_where(causes, "bias=other_expert", "bias", "after"),
            (Values{4, 8, 16, 32, 1, 2}));
}

TEST(LeftOutHypotheses, OfBiasesWithoutColumnsHaveNone) {
  EXPECT_EQ(listed(biased(Tensor(Dtype::f32, {2, 0}))).names("bias="),
            (Words{"bias=left_out", "bias=twice"}));
  EXPECT_EQ(listed(biased(floats({}, {1}))).names("bias="), (Words{"bias=left_out", "bias=twice"}));
}

}  // namespace
}  // namespace mxo
