// Edges of the judge: gates, notes, figures, and the order of steps.
#include <gtest/gtest.h>

#include "golden/judge/judge.h"
#include "golden/judge/step_order.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(JudgeEdges, PresetsOfSqnrHaveASourceAndANearestName) {
  for (const SqnrPreset& preset : sqnr_presets()) {
    const Gate gate = parse_gate("sqnr=" + std::string(preset.name));
    EXPECT_EQ(gate.sqnr, preset.decibels);
    EXPECT_NE(to_text(gate).find(preset.name), std::string::npos);
    EXPECT_NE(preset.source.find("pytorch/ao 36027d8, test/"), std::string::npos);
  }
  EXPECT_EQ(to_text(parse_gate("sqnr=torchao_mxfp8_moe")), "sqnr=torchao_mxfp8_moe (28 dB)");
  EXPECT_EQ(to_text(parse_gate("sqnr=auto")), "sqnr=auto");
  const std::string said = refusal([] { parse_gate("sqnr=torchao_mxfp8_mo"); });
  EXPECT_NE(said.find("torchao_mxfp8_moe"), std::string::npos) << said;
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
