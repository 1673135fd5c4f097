// Edges of the judge: gates, notes, figures, and the order of steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/error.h"
#include "golden/judge/judge.h"
#include "golden/judge/outputs.h"
#include "golden/judge/step_order.h"
#include "ops/catalogue.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(JudgeEdges, GatesThatAnythingPassesAreRefused) {
  for (const char* gate : {"sqnr=0", "sqnr=-5", "sqnr=-1e-9", "sqnr=inf", "sqnr=nan", "ulp=-1"}) {
    EXPECT_THROW(parse_gate(gate), Error) << gate;
  }
  EXPECT_EQ(parse_gate("sqnr=0.5").sqnr, 0.5);
}

TEST(JudgeEdges, PresetsOfSqnrHaveASourceAndANearestName) {
  for (const SqnrPreset& preset : sqnr_presets()) {
    const Gate gate = parse_gate("sqnr=" + std::string(preset.name));
    EXPECT_EQ(gate.sqnr, preset.decibels);
    EXPECT_NE(to_text(gate).find(preset.name), std::string::npos);
    EXPECT_NE(preset.source.find("pytorch/ao 36027d8, test/"), std::string::npos);
  }
  EXPECT_EQ(to_text(parse_gate("sqnr=torchao_mxfp8_moe")), "sqnr=torchao_mxfp8_moe (28 dB)");
  EXPECT_EQ(to_text(parse_gate("sqnr=auto")), "sqnr=auto");
  try {
    parse_gate("sqnr=torchao_mxfp8_mo");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("torchao_mxfp8_moe"), std::string::npos)
        << error.what();
  }
}

TEST(JudgeEdges, NoColumnsOwedIsNothingOwed) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const Tensor y = floats({2, 2}, {5, 6, 7, 8});
  ExpectedOutput expected_output = owe(x);
  expected_output.groups.compared_columns = 0;
  EXPECT_EQ(compare_tensor("y", expected_output, y).outcome, Outcome::not_compared);
  expected_output.groups.compared_columns = 1;
  EXPECT_EQ(compare_tensor("y", expected_output, y).all.elements, 2);
}

TEST(JudgeEdges, ColumnsOfNoGroupAreNamed) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectedOutput expected_output = owe(x);
  const auto note = [&](Index columns) {
    expected_output.groups.compared_columns = columns;
    return compare_tensor("y", expected_output, x).note;
  };
  EXPECT_EQ(note(3), "");
  EXPECT_EQ(note(2), "column 2 belongs to no group and holds numbers: not compared");
  EXPECT_EQ(note(0), "columns 0 to 2 belong to no group and hold numbers: not compared");
  expected_output.groups.compared_columns = 2;
  EXPECT_EQ(compare_tensor("y", expected_output, floats({2, 3}, {1, 2, 0, 4, 5, 0})).note,
            "column 2 belongs to no group and holds zeros: not compared");
  EXPECT_EQ(compare_tensor("y", expected_output, floats({2, 3}, {1, 2, 5, 4, 5, 0})).note,
            "column 2 belongs to no group and holds numbers: not compared");
}

TEST(JudgeEdges, RowsOfNoGroupAreNamedByWhatTheyHold) {
  const auto note = [](const Tensor& x) {
    ExpectedOutput expected_output = owe(x);
    expected_output.groups.compared_rows = 1;
    return compare_tensor("y", expected_output, x).note;
  };
  EXPECT_EQ(note(floats({2, 1}, {1, 0})),
            "row 1 belongs to no group and holds zeros: not compared");
  EXPECT_EQ(note(floats({2, 1}, {0, 1})),
            "row 1 belongs to no group and holds numbers: not compared");
  EXPECT_EQ(note(floats({1}, {1})), "");
  const Tensor y = floats({2, 1}, {1, 2});
  ExpectedOutput none = owe(y);
  none.groups.compared_rows = 0;
  EXPECT_EQ(compare_tensor("y", none, y).note,
            "rows 0 to 1 belong to no group and hold numbers: not compared");
  EXPECT_EQ(note(Tensor(Dtype::f32, {3, 0})), "");
}

TEST(JudgeEdges, AMissingOutputFails) {
  const Tensor x = floats({1}, {1});
  const TensorVerdict verdict = judge_outputs({"", {}, {}}, {{"y", owe(x), nullptr}}, {}).front();
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.reason, "ACTUAL has no tensor of this name");
  EXPECT_EQ(verdict.name, "y");
  EXPECT_EQ(verdict.format, Dtype::f32);
  EXPECT_EQ(verdict.shape, std::vector<Index>{1});
}

TEST(JudgeEdges, NanHasNoDistance) {
  const Tensor x = floats({2}, {1, kNaN});
  const Tensor y = floats({2}, {kNaN, 1});
  EXPECT_EQ(compare_tensor("y", owe(x), y).all.max_ulp, 0u);
  const ExpectedOutput expected_output = owe(x);
  const Judge judge(expected_output, y, {});
  EXPECT_EQ(judge.at(0).distance, 0u);
  EXPECT_EQ(judge.at(1).distance, 0u);
}

TEST(JudgeEdges, InfinityOnOneSideIsAnInfiniteError) {
  const TensorVerdict verdict =
      compare_tensor("y", owe(floats({2}, {1, 2})), floats({2}, {1, kInf}));
  EXPECT_TRUE(std::isinf(verdict.all.max_absolute));
  EXPECT_TRUE(std::isinf(verdict.all.max_relative));
  EXPECT_EQ(verdict.all.inf_one_sided, 1);
}

TEST(JudgeEdges, ZerosHaveFiguresToo) {
  const Tensor zero = floats({2}, {0, 0});
  const Measures same = compare_tensor("y", owe(zero), zero).all;
  EXPECT_EQ(same.calc_diff, 0);
  EXPECT_EQ(same.cosine, 1);
  EXPECT_EQ(same.max_relative, 0);
  const Measures other = compare_tensor("y", owe(zero), floats({2}, {1, 0})).all;
  EXPECT_EQ(other.calc_diff, 1);
  EXPECT_EQ(other.cosine, 0);
}

TEST(JudgeEdges, HistogramsCountStepsByPowersOfTwo) {
  Tensor x(Dtype::f32, {8});
  Tensor y(Dtype::f32, {8});
  for (std::uint32_t i = 0; i < 6; ++i) y.as<std::uint32_t>()[i] = i;  // 0 to 5 steps
  y.as<float>()[6] = kNaN;
  x.as<float>()[7] = kNaN;
  EXPECT_EQ(compare_tensor("y", owe(x), y).histogram, (std::vector<Index>{1, 1, 1, 2, 1}));
}

TEST(JudgeEdges, TheFirstGroupMayBeTheWorst) {
  const Tensor x = floats({2, 1, 1}, {10, 10});
  const Tensor y = floats({2, 1, 1}, {11, 10});  // 20 dB
  const TensorVerdict verdict = compare_tensor("y", owe(x), y);
  EXPECT_EQ(verdict.shape, x.shape());
  EXPECT_EQ(verdict.worst_group, 0);
  EXPECT_EQ(verdict.groups[0].measures.differing, 1);
  EXPECT_EQ(verdict.reason, "1 of 2 refused, worst group 0");
  EXPECT_EQ(compare_tensor("y", owe(x), y, gated("sqnr=20")).outcome, Outcome::pass);
  EXPECT_EQ(compare_tensor("y", owe(x), y, gated("sqnr=20.01")).outcome, Outcome::fail);
}

TEST(JudgeEdges, UnwrittenElementsNeedASentinel) {
  Tensor one(Dtype::f32, {});
  one.as<float>()[0] = 1;
  const Tensor zero(Dtype::f32, {});
  EXPECT_EQ(compare_tensor("y", owe(one), zero).note, "");
  CompareOptions options;
  options.sentinel = std::uint8_t{0};
  EXPECT_EQ(compare_tensor("y", owe(one), zero, options).note,
            "1 element in row 0 still holds 00 00 00 00: never written");
}

std::span<const std::string_view> steps_of(std::string_view op) {
  const auto entries = catalogue();
  return std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == op; })
      ->steps;
}

TensorVerdict output(std::string name, Outcome outcome = Outcome::pass) {
  TensorVerdict verdict;
  verdict.name = std::move(name);
  verdict.outcome = outcome;
  return verdict;
}

std::vector<std::string> names(const CaseVerdict& verdict) {
  std::vector<std::string> all;
  for (const TensorVerdict& v : verdict.outputs) all.push_back(v.name);
  return all;
}

TEST(StepOrder, SortsByStepWhateverRankAndPart) {
  const auto steps = steps_of("moe_layer");
  ASSERT_GE(steps.size(), 3u);
  const std::string first = "rank0." + std::string(steps[0]);
  const std::string second = "rank1." + std::string(steps[1]) + ".scales";
  const std::string third(steps[2]);
  CaseVerdict verdict;
  verdict.outputs = {output("unknown"), output(third, Outcome::fail), output(second, Outcome::fail),
                     output(first)};
  order_by_step("moe_layer", verdict);
  EXPECT_EQ(names(verdict), (std::vector<std::string>{first, second, third, "unknown"}));
  EXPECT_EQ(verdict.reason, "the first step to differ is " + second);
}

TEST(StepOrder, LeavesOtherOperatorsAsTheyAre) {
  for (const char* op : {"grouped_matmul", "no_such_operator"}) {
    CaseVerdict verdict;
    verdict.reason = "as it was";
    verdict.outputs = {output("b", Outcome::fail), output("a")};
    order_by_step(op, verdict);
    EXPECT_EQ(names(verdict), (std::vector<std::string>{"b", "a"})) << op;
    EXPECT_EQ(verdict.reason, "as it was") << op;
  }
}

}  // namespace
}  // namespace mxo
