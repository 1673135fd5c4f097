// Outputs of operators of many steps, in the order in which they come about.
#include "golden/judge/step_order.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ops/catalogue.h"

namespace mxo {
namespace {

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

TEST(StepOrder, KeepsTheOrderWithinAStep) {
  const std::string step(steps_of("moe_layer")[0]);
  CaseVerdict verdict;
  verdict.outputs = {output(step + ".codes"), output("rank1." + step + ".scales"), output(step)};
  const auto before = names(verdict);
  order_by_step("moe_layer", verdict);
  EXPECT_EQ(names(verdict), before);
  EXPECT_EQ(verdict.reason, "");
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
