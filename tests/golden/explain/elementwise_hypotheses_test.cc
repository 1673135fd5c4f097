// A bias by row, rows that a sum misses, and experts with weights of others: which, and what comes.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

CausesListed causes_of(const Call& call) { return {call, add_elementwise_hypotheses}; }

NamedTensors one(const char* name, Tensor t) {
  NamedTensors out;
  out.emplace(name, std::move(t));
  return out;
}

Call biased(Tensor y, Tensor bias) {
  Call call{"add_bias", {}, {}};
  call.replace("y", std::move(y));
  call.replace("bias", std::move(bias));
  return call;
}

/// What the bias by row makes of an output of that type and shape.
Numbers by_row(const Call& call, Dtype dtype, std::vector<Index> shape, const char* name = "out") {
  const auto out =
      causes_of(call).rewritten("bias=by_row", one(name, Tensor(dtype, std::move(shape))));
  return out ? plain_numbers(out->at(name)) : Numbers{};
}

TEST(ElementwiseHypotheses, OfBiasesByRow) {
  const Call call = biased(floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({2}, {10, 0x1p-10f}));
  const CausesListed causes = causes_of(call);
  EXPECT_EQ(causes.phrases(), Words{"the bias is added by row rather than by column"});
  EXPECT_EQ(causes.at("bias=by_row").stage, Stage::output);
  EXPECT_TRUE(causes.altered("bias=by_row"));
  EXPECT_EQ(by_row(call, Dtype::f32, {3, 2}), (Numbers{11, 12, 3 + 0x1p-10, 4 + 0x1p-10, 15, 16}));
  EXPECT_EQ(by_row(call, Dtype::bf16, {3, 2}), (Numbers{11, 12, 3, 4, 15, 16}));
  const Tensor narrow = tensor_from<BF16>(Dtype::bf16, {2}, {encode<kBF16>(1), encode<kBF16>(2)});
  EXPECT_EQ(by_row(biased(floats({2, 1}, {3, 4}), narrow), Dtype::f32, {2, 1}), (Numbers{4, 6}));
}

TEST(ElementwiseHypotheses, OfBiasesByRowNeedRowsAndABias) {
  const Tensor y = floats({2, 2}, {1, 2, 3, 4});
  const Tensor bias = floats({2}, {1, 2});
  EXPECT_EQ(by_row(biased(y, bias), Dtype::f32, {2, 2}, "y"), Numbers{});
  EXPECT_EQ(by_row(biased(floats({2}, {1, 2}), bias), Dtype::f32, {2}), Numbers{});
  EXPECT_EQ(by_row(biased(y, floats({1, 2}, {1, 2})), Dtype::f32, {2, 2}), Numbers{});
  EXPECT_EQ(by_row(biased(y, Tensor(Dtype::f32, {0})), Dtype::f32, {2, 2}), Numbers{});
  EXPECT_EQ(by_row(biased(y, floats({1}, {1})), Dtype::f32, {2, 2}), (Numbers{2, 3, 4, 5}));
  Call call = biased(y, bias);
  call.op = "cast";
  EXPECT_EQ(causes_of(call).list.size(), 0u);
  for (const char* name : {"y", "bias"}) {
    call = biased(y, bias);
    call.inputs.erase(name);
    EXPECT_EQ(causes_of(call).list.size(), 0u);
  }
}

/// w1 [experts, 1] counts from 1.
Call layer(Index experts, Index ranks = 0) {
  Call call{"moe_layer", {}, {}};
  call.replace("w1", counted_floats({experts, 1}, 1));
  for (Index r = 0; r < ranks; ++r) {
    call.replace("rank" + std::to_string(r) + ".x", Tensor(Dtype::f32, {1, 1}));
  }
  return call;
}

TEST(ElementwiseHypotheses, OfExpertsWithWeightsOfOthers) {
  const CausesListed causes = causes_of(layer(4));
  EXPECT_EQ(causes.phrases(),
            (Words{"experts take w1 of the expert before", "experts take w1 of the expert after",
                   "experts take w1 of expert 0"}));
  for (const Hypothesis& h : causes.list) EXPECT_EQ(h.stage, Stage::input);
  EXPECT_EQ(operand_if(causes, "w1=other_expert", "w1", "before"), (Numbers{4, 1, 2, 3}));
  EXPECT_EQ(operand_if(causes, "w1=other_expert", "w1", "after"), (Numbers{2, 3, 4, 1}));
  EXPECT_EQ(operand_if(causes, "w1=expert_0", "w1"), (Numbers{1, 1, 1, 1}));
  for (const char* name : {"w1=other_expert", "w1=expert_0"}) {
    EXPECT_FALSE(causes_of(layer(1)).altered(name)) << "of one expert";
  }
}

TEST(ElementwiseHypotheses, OfExpertsOfRanks) {
  EXPECT_EQ(causes_of(layer(4, 1)).find("w1=local"), nullptr);
  const CausesListed causes = causes_of(layer(4, 2));
  EXPECT_EQ(causes.at("w1=local").phrase,
            "experts take w1 of the first rank: numbers of experts are those of their rank");
  EXPECT_EQ(operand_if(causes, "w1=local", "w1"), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(operand_if(causes_of(layer(2, 4)), "w1=local", "w1"), (Numbers{1, 1}))
      << "ranks without experts";
  Call call = layer(4);
  for (const char* name : {"rank0.x", "rank0.logits", "x", "order.x"}) {
    call.replace(name, Tensor(Dtype::f32, {1, 1}));
  }
  EXPECT_EQ(causes_of(call).find("w1=local"), nullptr) << "of one rank";
}

TEST(ElementwiseHypotheses, OfExpertsAreOfEveryOperandOfTheirs) {
  Call call{"moe_layer", {}, {}};
  for (const char* name : {"w1", "w2", "w1.bias", "w2.bias", "w3"}) {
    call.replace(name, counted_floats({2, 1}, 1));
  }
  EXPECT_EQ(causes_of(call).names(),
            (Words{"w1=other_expert", "w1=other_expert", "w1=expert_0", "w2=other_expert",
                   "w2=other_expert", "w2=expert_0", "w1.bias=other_expert", "w1.bias=other_expert",
                   "w1.bias=expert_0", "w2.bias=other_expert", "w2.bias=other_expert",
                   "w2.bias=expert_0"}));
  call.replace("w1", counted_floats({2}, 1));
  EXPECT_EQ(causes_of(call).find("w1=expert_0"), nullptr) << "of no experts";
  call.op = "grouped_linear";
  EXPECT_EQ(causes_of(call).list.size(), 0u);
}

/// Sums of x that came as other numbers.
struct Summed {
  Summed(Tensor x, Tensor came, const std::vector<Index>& ends = {}) : actual(std::move(came)) {
    call.replace("x", std::move(x));
    if (!ends.empty()) call.replace("group_ends", ends_at(ends));
    if (actual.rank() == 2) call.set.set("over", "groups");
    expected = run_call(*make_reference_backend(), call).at("sum");
  }
  /// `settled`: elements of the sums that another cause has explained.
  CausesListed causes(const std::vector<Index>& settled = {}) const {
    CausesListed listed{call, [](const Call&, std::vector<Hypothesis>&) {}};
    Output sums = make_output(call, "sum", expected, actual);
    for (const Index i : settled) sums.settle(i);
    add_missing_rows(call, sums, listed.list);
    return listed;
  }
  Call call{"column_sum", {}, {}};
  Tensor expected;
  Tensor actual;
};

/// Rows {1, 10}, {2, 20}, {4, 40} and so on.
Tensor powers(Index rows) {
  Tensor x(Dtype::f32, {rows, 2});
  for (Index r = 0; r < rows; ++r) {
    x.as<float>()[2 * r] = static_cast<float>(1 << r);
    x.as<float>()[2 * r + 1] = static_cast<float>(10 << r);
  }
  return x;
}

TEST(MissingRows, AreLeftOutOfTheSum) {
  const Summed sums(powers(4), floats({2}, {11, 110}));  // of 15 and 150
  const CausesListed causes = sums.causes();
  EXPECT_EQ(causes.names(), Words{"rows.missing"});
  EXPECT_EQ(causes.phrases(), Words{"row 2 is left out of the sum"});
  EXPECT_EQ(causes.at("rows.missing").stage, Stage::input);
  EXPECT_EQ(operand_if(causes, "rows.missing", "x"), (Numbers{1, 10, 2, 20, 0, 0, 8, 80}));
  EXPECT_EQ(Summed(powers(4), floats({2}, {14, 140})).causes().phrases(),
            Words{"row 0 is left out of the sum"});
  EXPECT_EQ(Summed(powers(4), floats({2}, {7, 70})).causes().phrases(),
            Words{"row 3 is left out of the sum"});
}

/// What a sum came short of is a row's but for the rounding of the rest.
TEST(MissingRows, AreNearWhatTheSumCameShortOf) {
  const auto seen = [](float first, float second) {
    return Summed(powers(4), floats({2}, {first, second})).causes().list.size();
  };
  EXPECT_EQ(seen(11, 111), 1u) << "1 of 43 is off";
  EXPECT_EQ(seen(11, 95), 0u) << "15 of 59";
  EXPECT_EQ(seen(15, 150), 0u) << "nothing differs";
  EXPECT_EQ(seen(19, 190), 0u) << "it is too much";
  EXPECT_EQ(seen(std::numeric_limits<float>::quiet_NaN(), 110), 0u);
  const auto of_one = [](float second) {
    return Summed(floats({1, 2}, {1, 2}), floats({2}, {0, second})).causes().list.size();
  };
  EXPECT_EQ(of_one(-0.75f), 1u);
  EXPECT_EQ(of_one(-1), 0u) << "1 of 4";
}

TEST(MissingRows, AreOfTheirGroup) {
  const Summed sums(powers(6), floats({3, 2}, {2, 20, 0, 0, 44, 440}), {2, 2, 6});  // 3, 0, 60
  EXPECT_EQ(sums.causes().phrases(), Words{"rows 0, 4 are left out of the sum"});
  EXPECT_EQ(operand_if(sums.causes(), "rows.missing", "x"),
            (Numbers{0, 0, 2, 20, 4, 40, 8, 80, 0, 0, 32, 320}));
  const Summed others(powers(6), floats({2, 2}, {3, 30, 56, 560}), {2, 6});
  EXPECT_EQ(others.causes().phrases(), Words{"row 2 is left out of the sum"});
  const Summed own(powers(3), floats({2, 2}, {-1, -10, 4, 40}), {2, 3});
  EXPECT_EQ(own.causes().phrases(), Words{}) << "row 2 is of the next group";
  const Summed before(powers(4), floats({2, 2}, {3, 30, 11, 110}), {2, 4});
  EXPECT_EQ(before.causes().phrases(), Words{}) << "row 0 is of the group before";
  const Summed third(powers(4), floats({3, 2}, {1, 10, 2, 20, 10, 100}), {1, 2, 4});
  EXPECT_EQ(third.causes().phrases(), Words{}) << "and row 1";
  const Summed apart(powers(4), floats({2, 2}, {2, 25, -88, 120}), {2, 4});
  EXPECT_EQ(apart.causes().phrases(), Words{}) << "no sum is near a row";
  const Summed alike(floats({3, 1}, {1, 1, 4}), floats({1}, {5}));
  EXPECT_EQ(alike.causes().phrases(), Words{"row 0 is left out of the sum"}) << "of equals";
}

TEST(MissingRows, AreOfSumsThatNothingExplainsYet) {
  const Summed sums(powers(4), floats({2, 2}, {1, 10, 4, 40}), {2, 4});  // of 3, 30, 12, 120
  EXPECT_EQ(sums.causes().phrases(), Words{"rows 1, 3 are left out of the sum"});
  EXPECT_EQ(sums.causes({0, 1}).phrases(), Words{"row 3 is left out of the sum"});
  EXPECT_EQ(sums.causes({0}).phrases(), Words{"rows 1, 3 are left out of the sum"});
  EXPECT_EQ(sums.causes({0, 1, 2, 3}).phrases(), Words{});
}

TEST(MissingRows, OfNarrowTypesAreRead) {
  Tensor x(Dtype::bf16, {3, 1});
  for (Index r = 0; r < 3; ++r) x.as<BF16>()[r] = encode<kBF16>(static_cast<float>(1 << r));
  EXPECT_EQ(Summed(x, floats({1}, {5})).causes().phrases(), Words{"row 1 is left out of the sum"});
}

TEST(MissingRows, AreOfColumnSums) {
  const Summed sums(powers(4), floats({2}, {11, 110}));
  Summed other = sums;
  other.call.op = "cast";
  EXPECT_EQ(other.causes().list.size(), 0u);
  other = sums;
  other.call.inputs.erase("x");
  EXPECT_EQ(other.causes().list.size(), 0u);
  other.call.replace("x", floats({8}, {1, 10, 2, 20, 4, 40, 8, 80}));
  EXPECT_EQ(other.causes().list.size(), 0u);
  other.call.replace("x", Tensor(Dtype::f32, {4, 3}));
  EXPECT_EQ(other.causes().list.size(), 0u) << "of other columns";
  other.call.replace("x", Tensor(Dtype::f32, {4, 0}));
  EXPECT_EQ(other.causes().list.size(), 0u);
}

}  // namespace
}  // namespace mxo
