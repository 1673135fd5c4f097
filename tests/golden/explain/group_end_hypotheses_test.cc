// Ends of groups, router weights and halves of a gate that are read another way.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

CausesListed inputs_of(const Call& call) { return {call, add_input_hypotheses}; }

Call grouped(const std::vector<Index>& ends, const char* op = "cast") {
  Call call{op, {}, {}};
  call.replace("group_ends", ends_at(ends));
  return call;
}

Numbers ends_where(const std::vector<Index>& ends, const char* cause, const char* words = "") {
  return operand_if(inputs_of(grouped(ends)), cause, "group_ends", words);
}

TEST(GroupEndHypotheses, AreInWords) {
  EXPECT_EQ(
      inputs_of(grouped({2, 4})).phrases(),
      (Words{"groups end 1 row early", "group 0 ends 1 row early", "group 1 ends 1 row early",
             "groups end 1 row late", "group 0 ends 1 row late", "group 1 ends 1 row late",
             "groups end 32 rows early", "group 0 ends 32 rows early", "group 1 ends 32 rows early",
             "groups end 32 rows late", "group 0 ends 32 rows late", "group 1 ends 32 rows late",
             "groups end 128 rows early", "group 0 ends 128 rows early",
             "group 1 ends 128 rows early", "groups end 128 rows late",
             "group 0 ends 128 rows late", "group 1 ends 128 rows late"}));
  const CausesListed causes = inputs_of(grouped({4}));
  EXPECT_EQ(causes.names(),
            (Words{"group_ends-1", "group_ends=moved", "group_ends+1", "group_ends=moved",
                   "group_ends-32", "group_ends=moved", "group_ends+32", "group_ends=moved",
                   "group_ends-128", "group_ends=moved", "group_ends+128", "group_ends=moved"}));
  for (const Hypothesis& h : causes.list) EXPECT_FALSE(h.local) << h.name;
  EXPECT_EQ(inputs_of({"cast", {}, {}}).list.size(), 0u);
  EXPECT_EQ(inputs_of(grouped(std::vector<Index>(70, 1))).names("group_ends=moved").size(), 6u * 64)
      << "of the first 64 groups";
}

/// The last end stays, as all rows are owed.
TEST(GroupEndHypotheses, OfAllEndsMoveThemWithinTheRows) {
  EXPECT_EQ(ends_where({2, 4, 6}, "group_ends-1"), (Numbers{1, 3, 6}));
  EXPECT_EQ(ends_where({2, 4, 6}, "group_ends+1"), (Numbers{3, 5, 6}));
  EXPECT_EQ(ends_where({0, 4, 6}, "group_ends-1"), (Numbers{0, 3, 6})) << "nothing is before it";
  EXPECT_EQ(ends_where({0, 4, 6}, "group_ends+1"), (Numbers{1, 5, 6}));
  EXPECT_EQ(ends_where({2, 6, 6}, "group_ends+1"), (Numbers{3, 6, 6})) << "nothing is behind it";
  EXPECT_EQ(ends_where({2, 6, 6}, "group_ends-1"), (Numbers{1, 5, 6}));
  EXPECT_EQ(ends_where({32, 64}, "group_ends-32"), (Numbers{0, 64}));
  EXPECT_EQ(ends_where({32, 64}, "group_ends+32"), (Numbers{64, 64}));
  EXPECT_EQ(ends_where({31, 63}, "group_ends-32"), Numbers{});
  EXPECT_EQ(ends_where({32, 63}, "group_ends+32"), Numbers{});
}

TEST(GroupEndHypotheses, OfOneEndStayBetweenItsNeighbours) {
  const auto moved = [](const std::vector<Index>& ends, const char* words) {
    return ends_where(ends, "group_ends=moved", words);
  };
  EXPECT_EQ(moved({2, 4, 6}, "group 1 ends 1 row early"), (Numbers{2, 3, 6}));
  EXPECT_EQ(moved({2, 4, 6}, "group 0 ends 1 row late"), (Numbers{3, 4, 6}));
  EXPECT_EQ(moved({1, 2}, "group 0 ends 1 row early"), (Numbers{0, 2}));
  EXPECT_EQ(moved({0, 2}, "group 0 ends 1 row early"), Numbers{});
  EXPECT_EQ(moved({1, 2}, "group 1 ends 1 row early"), (Numbers{1, 1}));
  EXPECT_EQ(moved({2, 2}, "group 1 ends 1 row early"), Numbers{});
  EXPECT_EQ(moved({1, 2}, "group 0 ends 1 row late"), (Numbers{2, 2}));
  EXPECT_EQ(moved({2, 2}, "group 0 ends 1 row late"), Numbers{});
  EXPECT_EQ(moved({2, 4, 200}, "group 0 ends 32 rows late"), Numbers{});
  EXPECT_EQ(moved({1, 2}, "group 1 ends 1 row late"), (Numbers{1, 3})) << "into the buffer";
}

TEST(GroupEndHypotheses, OfQuantisersIgnoreThem) {
  for (const char* op : {"quantize", "quantize_any"}) {
    const CausesListed causes = inputs_of(grouped({2, 2, 5}, op));
    EXPECT_EQ(causes.at("group_ends=ignored").phrase,
              "blocks do not begin anew where a group does");
    EXPECT_FALSE(causes.at("group_ends=ignored").local);
    EXPECT_EQ(operand_if(causes, "group_ends=ignored", "group_ends"), (Numbers{5, 5, 5}));
  }
  EXPECT_EQ(operand_if(inputs_of(grouped({2, 5}, "quantize")), "group_ends=ignored", "group_ends"),
            (Numbers{5, 5}));
  EXPECT_EQ(inputs_of(grouped({5}, "quantize")).find("group_ends=ignored"), nullptr);
  EXPECT_EQ(inputs_of(grouped({2, 5})).find("group_ends=ignored"), nullptr);
}

TEST(GroupEndHypotheses, OfGradientsRunIntoTheBuffer) {
  Call call = gradient_call({32, 96}, 2, 2);
  EXPECT_EQ(inputs_of(call).find("group_ends=buffer"), nullptr);
  call.replace("group_ends", ends_at({32, 64}));
  const CausesListed causes = inputs_of(call);
  EXPECT_EQ(causes.at("group_ends=buffer").phrase,
            "the last group runs to the end of the buffer: rows that belong to nobody are summed");
  EXPECT_FALSE(causes.at("group_ends=buffer").local);
  EXPECT_EQ(operand_if(causes, "group_ends=buffer", "group_ends"), (Numbers{32, 96}));
  EXPECT_EQ(inputs_of(forward_call({4}, 2, 64)).find("group_ends=buffer"), nullptr)
      << "K is no buffer";
}

TEST(RouterWeightHypotheses, OfWeightsAreInWords) {
  Call call{"combine", {}, {}};
  call.replace("weights", floats({3}, {0.5f, 1 + 0x1p-8f, 3}));
  const CausesListed causes = inputs_of(call);
  EXPECT_EQ(causes.phrases(),
            (Words{"router weights are applied twice", "router weights are left out",
                   "router weights are rounded to bf16 first"}));
  for (const Hypothesis& h : causes.list) EXPECT_FALSE(h.local) << h.name;
  EXPECT_EQ(operand_if(causes, "weights=twice", "weights"),
            (Numbers{0.25, static_cast<float>(1 + 0x1p-7 + 0x1p-16), 9}));
  EXPECT_EQ(operand_if(causes, "weights=left_out", "weights"), (Numbers{1, 1, 1}));
  EXPECT_EQ(operand_if(causes, "weights=bf16", "weights"), (Numbers{0.5, 1, 3}));
}

TEST(RouterWeightHypotheses, AreOfEveryOperandOfWeights) {
  Call call{"combine", {}, {}};
  call.replace("probs", floats({1}, {3}));
  call.replace("rank0.weights", floats({1}, {4}));
  call.replace("rank1.weights", Tensor(Dtype::bf16, {1}));
  call.replace("x", floats({1}, {5}));
  const Call other = inputs_of(call).altered("weights=twice").value();
  EXPECT_EQ(plain_numbers(other.input("probs")), Numbers{9});
  EXPECT_EQ(plain_numbers(other.input("rank0.weights")), Numbers{16});
  EXPECT_EQ(plain_numbers(other.input("rank1.weights")), Numbers{0});
  EXPECT_EQ(plain_numbers(other.input("x")), Numbers{5});
  call.inputs.erase("probs");
  call.inputs.erase("rank0.weights");
  EXPECT_FALSE(inputs_of(call).altered("weights=twice")) << "of another type";
}

Call gate(std::vector<Index> shape, const char* op = "swiglu") {
  Call call{op, {}, {}};
  call.replace("x", counted_floats(std::move(shape), 1));
  return call;
}

TEST(GateHalfHypotheses, AreInWords) {
  const CausesListed causes = inputs_of(gate({2, 8}, "swiglu_quantize"));
  EXPECT_EQ(causes.phrases(), (Words{"x is read transposed", "gate and up are exchanged",
                                     "gate and up are read interleaved",
                                     "gate and up are read interleaved in runs of 2",
                                     "gate and up are read interleaved in runs of 4",
                                     "gate and up are read interleaved in runs of 8",
                                     "gate and up are read interleaved in runs of 16",
                                     "gate and up are read interleaved in runs of 32",
                                     "gate and up are read interleaved in runs of 64",
                                     "gate and up are read interleaved in runs of 128"}));
  EXPECT_TRUE(causes.at("x=halves").local);
  for (const Hypothesis& h : causes.list) {
    EXPECT_EQ(h.local, h.name != "x=transposed") << h.phrase;
  }
  EXPECT_EQ(inputs_of(gate({8}, "cast")).list.size(), 0u);
  EXPECT_EQ(inputs_of({"swiglu", {}, {}}).list.size(), 0u);
}

TEST(GateHalfHypotheses, TakeElementsFromTheOtherHalf) {
  const CausesListed causes = inputs_of(gate({2, 8}));
  EXPECT_EQ(operand_if(causes, "x=halves", "x"),
            (Numbers{5, 6, 7, 8, 1, 2, 3, 4, 13, 14, 15, 16, 9, 10, 11, 12}));
  EXPECT_EQ(operand_if(causes, "x=interleaved", "x", "interleaved"),
            (Numbers{1, 3, 5, 7, 2, 4, 6, 8, 9, 11, 13, 15, 10, 12, 14, 16}));
  EXPECT_EQ(operand_if(causes, "x=interleaved", "x", "runs of 2"),
            (Numbers{1, 2, 5, 6, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16}));
  EXPECT_EQ(operand_if(causes, "x=interleaved", "x", "runs of 4"), Numbers{})
      << "that is how they lie";
  EXPECT_EQ(operand_if(causes, "x=interleaved", "x", "runs of 8"), Numbers{});
  EXPECT_EQ(operand_if(inputs_of(gate({1, 24})), "x=interleaved", "x", "runs of 8"), Numbers{});
}

TEST(GateHalfHypotheses, NeedTwoHalves) {
  EXPECT_EQ(operand_if(inputs_of(gate({1, 2})), "x=halves", "x"), (Numbers{2, 1}));
  for (const std::vector<Index>& shape :
       {std::vector<Index>{1, 7}, std::vector<Index>{2, 0}, std::vector<Index>{}}) {
    EXPECT_FALSE(inputs_of(gate(shape)).altered("x=halves"));
  }
}

}  // namespace
}  // namespace mxo
