// How the comparator reads elements and cuts a tensor; edges of the judge: gates, notes, figures,
// steps.
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "golden/judge/elements.h"
#include "golden/judge/judge.h"
#include "golden/judge/step_order.h"
#include "golden/reports/reports.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo::comparator_walk_test {
namespace {

CompareOptions blocks_of(Index rows, Index columns, std::string_view gate = "bits") {
  CompareOptions options = gated(gate);
  options.row_block = rows;
  options.column_block = columns;
  return options;
}

/// Ones, with zeros where something fails.
Tensor with_zeros(std::vector<Index> shape, std::initializer_list<Index> at) {
  Tensor t(Dtype::f32, std::move(shape));
  std::fill_n(t.as<float>(), t.elements(), 1.0f);
  for (const Index i : at) t.as<float>()[i] = 0.0f;
  return t;
}

/// Enough elements to be shared, groups that end inside blocks, differences of every size.
TEST(ComparatorWalk, SaysTheSameForAnyNumberOfThreads) {
  Tensor x(Dtype::f32, {1033, 517});
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = draw(random);
  Tensor y = x;
  for (Index i = 0; i < y.elements(); i += 1 + static_cast<Index>(random() % 5))
    y.as<float>()[i] *= 1 + draw(random) * 0x1p-20f;
  y.as<float>()[777] = std::numeric_limits<float>::quiet_NaN();
  ExpectedOutput expected_output = owe(x);
  expected_output.groups.ends = {100, 100, 641, 1000};
  for (const char* gate : {"bits", "ulp=3", "sqnr=130"}) {
    CompareOptions options = blocks_of(32, 32, gate);
    std::set<std::string> said;
    for (const int threads : {1, 2, 3, 7, 16}) {
      options.threads = threads;
      Report report;
      report.cases.push_back({"case", "", Outcome::fail, {}, {}});
      report.cases[0].outputs.push_back(compare_tensor("y", expected_output, y, options));
      said.insert(json_report(report));
    }
    EXPECT_EQ(said.size(), 1u) << gate;
  }
}

TEST(ComparatorWalk, RefusesTheGroupBelowTheGate) {
  const Tensor x = with_zeros({4, 4}, {});
  const auto reason = [&](std::vector<Index> ends, std::initializer_list<Index> zeros,
                          const char* gate) {
    ExpectedOutput expected_output = owe(x);
    expected_output.groups.ends = std::move(ends);
    return compare_tensor("y", expected_output, with_zeros({4, 4}, zeros), blocks_of(32, 32, gate))
        .reason;
  };
  // Half of a group is 3.01 dB, a quarter 6.02 and an eighth 9.03.
  EXPECT_EQ(reason({}, {0, 1}, "sqnr=9.1"), "found 9.03 dB");
  EXPECT_EQ(reason({}, {0, 1}, "sqnr=9"), "");
  EXPECT_EQ(reason({2, 4}, {0, 1}, "sqnr=9"), "group 0 has 6.02 dB, worst group 0");
  EXPECT_EQ(reason({2, 4}, {0, 8, 9}, "sqnr=10"), "group 1 has 6.02 dB, worst group 1")
      << "not the first that is refused";
  EXPECT_EQ(reason({2, 4}, {0, 8, 9}, "sqnr=6"), "");
  EXPECT_EQ(reason({0, 2}, {12, 13}, "sqnr=20"), "") << "rows of no group";
  EXPECT_EQ(reason({0, 4}, {}, "sqnr=1000"), "") << "a group of no rows";
  const Tensor none(Dtype::f32, {0, 4});
  EXPECT_EQ(compare_tensor("y", owe(none), none, blocks_of(1, 1, "sqnr=1000")).outcome,
            Outcome::not_compared);
  const auto one = [](const char* gate) {
    const Tensor ten = floats({1}, {10});
    return compare_tensor("y", owe(ten), floats({1}, {11}), blocks_of(1, 1, gate)).reason;
  };
  EXPECT_EQ(one("sqnr=20"), "");
  EXPECT_EQ(one("sqnr=20.01"), "found 20.00 dB");
}

TEST(ComparatorWalk, SaysWhatIsUnwrittenBesideWhatNobodyOwns) {
  const Tensor x = with_zeros({3, 2}, {});
  Tensor y = x;
  y.as<std::uint32_t>()[1] = 0xA5A5A5A5u;
  ExpectedOutput expected_output = owe(x);
  CompareOptions options;
  options.sentinel = std::uint8_t{0xA5};
  const std::string unwritten = "1 element in row 0 still holds A5 A5 A5 A5: never written";
  EXPECT_EQ(compare_tensor("y", expected_output, y, options).note, unwritten);
  expected_output.groups.compared_rows = 2;
  EXPECT_EQ(compare_tensor("y", expected_output, y, options).note,
            "row 2 belongs to no group and holds numbers: not compared; " + unwritten);
  options.sentinel = std::uint8_t{0};
  EXPECT_EQ(compare_tensor("y", expected_output, y, options).note,
            "row 2 belongs to no group and holds numbers: not compared");
}

struct Row {
  Dtype type;
  std::uint64_t bits;
  double value;
};

TEST(Elements, IntegersAreFiniteNumbersOfTheirRange) {
  for (const Row& row :
       {Row{Dtype::u8, 255, 255}, Row{Dtype::boolean, 1, 1}, Row{Dtype::i8, 0xFF, -1},
        Row{Dtype::u16, 0xFFFF, 65535}, Row{Dtype::i16, 0x8000, -32768},
        Row{Dtype::u32, 0xFFFFFFFF, 4294967295}, Row{Dtype::i32, 0xFFFFFFFE, -2},
        Row{Dtype::i64, ~0ull, -1}, Row{Dtype::u64, 1ull << 63, 0x1p63}, Row{Dtype::u64, 0, 0}}) {
    const Element element = ElementReader(row.type)(row.bits);
    EXPECT_EQ(element.value, row.value) << name_of(row.type);
    EXPECT_FALSE(element.nan) << name_of(row.type);
    EXPECT_FALSE(element.infinite) << name_of(row.type);
  }
}

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
}  // namespace mxo::comparator_walk_test
