// Other parameters of an operator: which are thought of, in which words, and what comes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/scale_rules.h"
#include "tests/golden/causes_listed.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Settings = std::map<std::string, std::string, std::less<>>;

Call call_of(const std::string& op, Settings set = {}) {
  return {op, {}, Parameters(std::move(set))};
}

CausesListed rules_of(const Call& call) { return {call, add_rule_hypotheses}; }

TEST(RuleHypotheses, OfScaleModesAreInCapitals) {
  const CausesListed causes = rules_of(call_of("quantize", {{"scale_mode", "even"}}));
  EXPECT_EQ(causes.phrases("scale_mode="),
            (Words{"the scales are RCEIL rather than EVEN", "the scales are FLOOR rather than EVEN",
                   "the scales are CEIL rather than EVEN"}));
  EXPECT_EQ(causes.altered("scale_mode=floor").value().set.text("scale_mode", ""), "floor");
  EXPECT_TRUE(causes.at("scale_mode=floor").local);
  EXPECT_EQ(rules_of(call_of("quantize")).names("scale_mode=").size(), 3u) << "RCEIL by itself";
  EXPECT_EQ(rules_of(call_of("dequantize")).names("scale_mode=").size(), 0u);
}

TEST(RuleHypotheses, OfFormatsSayWhose) {
  EXPECT_EQ(rules_of(call_of("dequantize", {{"format", "e5m2"}})).phrases("format"),
            (Words{"the codes are taken as e4m3 rather than e5m2",
                   "the codes are taken as e4m3fnuz rather than e5m2",
                   "the codes are taken as e5m2fnuz rather than e5m2"}));
  const CausesListed product = rules_of(call_of("grouped_matmul"));
  EXPECT_EQ(product.at("format_x=e5m2").phrase, "x is taken as e5m2 rather than e4m3");
  EXPECT_EQ(product.at("format_w=e5m2").phrase, "w is taken as e5m2 rather than e4m3");
  EXPECT_EQ(rules_of(call_of("grouped_matmul_wgrad")).at("format_dy=e5m2").phrase,
            "dy is taken as e5m2 rather than e4m3");
}

TEST(RuleHypotheses, OfFormatsOfBothSides) {
  for (const char* op : {"grouped_matmul", "grouped_matmul_wgrad"}) {
    const std::string other = std::string(op) == "grouped_matmul" ? "format_w" : "format_dy";
    const CausesListed causes = rules_of(call_of(op));
    EXPECT_EQ(causes.phrases("format="),
              (Words{"both sides are taken as e4m3fnuz", "both sides are taken as e5m2",
                     "both sides are taken as e5m2fnuz"}));
    const Call both = causes.altered("format=e5m2").value();
    EXPECT_EQ(both.set.text("format_x", ""), "e5m2");
    EXPECT_EQ(both.set.text(other, ""), "e5m2");
    EXPECT_TRUE(causes.at("format=e5m2").local);
    EXPECT_EQ(rules_of(call_of(op, {{"format_x", "e5m2"}})).names("format="),
              (Words{"format=e4m3fnuz", "format=e5m2fnuz"}))
        << "of one side only";
  }
}

/// Codes that have a type are bytes to who takes them for another.
TEST(RuleHypotheses, OfFormatsForgetTheTypesOfCodes) {
  Call call = call_of("grouped_matmul");
  call.replace("x.codes", Tensor(Dtype::e4m3, {2, 32}));
  call.replace("w.codes", Tensor(Dtype::e4m3, {1, 2, 32}));
  call.replace("x.scales", Tensor(Dtype::e8m0, {2, 1}));
  const CausesListed causes = rules_of(call);
  for (const char* name : {"format_x=e5m2", "format=e5m2"}) {
    const Call other = causes.altered(name).value();
    EXPECT_EQ(other.input("x.codes").dtype(), Dtype::u8);
    EXPECT_EQ(other.input("w.codes").dtype(), Dtype::u8);
    EXPECT_EQ(other.input("x.scales").dtype(), Dtype::e8m0);
  }
  call.op = "dispatch";
  EXPECT_EQ(rules_of(call).altered("scale_mode=floor").value().input("x.codes").dtype(),
            Dtype::e4m3);
}

TEST(RuleHypotheses, OfScaleRulesAreOneForEachName) {
  const CausesListed causes = rules_of(call_of("quantize", {{"rule", "te"}}));
  const Words rules = causes.names("rule=");
  std::vector<std::string> sorted = rules;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool listed =
        std::find(rules.begin(), rules.end(), "rule=" + std::string(row.name)) != rules.end();
    EXPECT_EQ(listed, row.name != "te") << row.name;
  }
  EXPECT_EQ(causes.phrases("rule=").front(), "scales follow the rule torchao rather than te");
  EXPECT_EQ(causes.altered("rule=vllm").value().set.text("rule", ""), "vllm");
  EXPECT_EQ(rules_of(call_of("quantize")).names("rule=").front(), "rule=te");
  EXPECT_EQ(rules_of(call_of("dequantize")).names("rule=").size(), 0u);
}

TEST(RuleHypotheses, OfBlocksRunAlongTheOtherAxis) {
  const auto blocks = [](const char* block) {
    return rules_of(call_of("quantize", {{"block", block}})).phrases("block=");
  };
  EXPECT_EQ(blocks("1x128"), Words{"blocks are 128x1 rather than 1x128"});
  EXPECT_EQ(blocks("1xK"), Words{"blocks are Rx1 rather than 1xK"});
  EXPECT_EQ(blocks("Rx1"), Words{"blocks are 1xK rather than Rx1"});
  EXPECT_EQ(blocks("128x128"), Words{});
  EXPECT_EQ(blocks("RxK"), Words{});
  EXPECT_EQ(blocks("per_token"), Words{});
  const CausesListed causes = rules_of(call_of("quantize"));
  EXPECT_EQ(causes.phrases("block="), Words{"blocks are 32x1 rather than 1x32"});
  EXPECT_EQ(causes.altered("block=32x1").value().set.text("block", ""), "32x1");
  EXPECT_EQ(rules_of(call_of("cast")).names("block=").size(), 0u);
}

TEST(RuleHypotheses, OfOpenParametersAreAFewValues) {
  const CausesListed causes = rules_of(call_of("pad_groups", {{"alignment", "32"}}));
  EXPECT_EQ(causes.phrases("alignment="),
            (Words{"alignment is 1", "alignment is 8", "alignment is 16", "alignment is 64",
                   "alignment is 128", "alignment is 256"}));
  EXPECT_EQ(causes.altered("alignment=8").value().set.text("alignment", ""), "8");
  EXPECT_EQ(rules_of(call_of("quantize", {{"power_of_2", "up"}})).phrases("power_of_2="),
            (Words{"power_of_2 is none", "power_of_2 is down"}));
  EXPECT_EQ(rules_of(call_of("cast")).names("power_of_2=").size(), 0u);
}

TEST(RuleHypotheses, OfOtherParametersNameThem) {
  EXPECT_EQ(rules_of(call_of("dispatch")).phrases("layout="),
            Words{"the layout is expert_major_padded rather than rank_major"});
  EXPECT_EQ(rules_of(call_of("route", {{"normalize", "false"}})).phrases("normalize="),
            Words{"normalize is true rather than false"});
  EXPECT_EQ(rules_of(call_of("swiglu", {{"rounding", "bf16"}})).phrases("rounding="),
            (Words{"rounding is none rather than bf16", "rounding is f16 rather than bf16"}));
  const CausesListed settings{call_of("route"), add_setting_hypotheses};
  EXPECT_EQ(settings.phrases(), Words{"group_score is best rather than two_best"});
  EXPECT_EQ(settings.altered("group_score=best").value().set.text("group_score", ""), "best");
}

TEST(RuleHypotheses, OfReadingsNeedThemAll) {
  const auto read = [](const char* operand) {
    return make_reading(
        operand, [](const Matrices& m) { return m.columns == 2; },
        [](const Matrices& m, Index, Index row, Index c) {
          return row * m.columns + m.columns - 1 - c;
        });
  };
  const Hypothesis h = read_elsewhere("name", "phrase", {read("a"), read("b")});
  EXPECT_EQ(h.stage, Stage::input);
  EXPECT_EQ(h.readings.size(), 2u);
  Call call = call_of("any");
  call.replace("a", floats({1, 2}, {1, 2}));
  call.replace("b", floats({1, 2}, {3, 4}));
  EXPECT_TRUE(h.alter(call));
  EXPECT_EQ(call.input("a").as<float>()[0], 2);
  EXPECT_EQ(call.input("b").as<float>()[0], 4);
  call.replace("b", floats({1, 3}, {3, 4, 5}));
  EXPECT_FALSE(h.alter(call));
}

/// Calls of which every list thinks something.
std::vector<Call> calls_of_all_kinds() {
  std::vector<Call> calls;
  calls.push_back(forward_call({4, 8}, 4, 64));
  calls.push_back(coded_product(4, 4, 1, 32));
  calls.push_back(call_of("swiglu"));
  calls.push_back(call_of("quantize"));
  calls.back().replace("x", Tensor(Dtype::f32, {2, 32}));
  calls.push_back(call_of("pad_groups"));
  calls.push_back(call_of("route", {{"scale", "2"}}));
  calls.back().replace("logits", Tensor(Dtype::f32, {2, 4}));
  calls.push_back(call_of("swiglu_quantize"));
  calls.back().replace("x", Tensor(Dtype::bf16, {2, 64}));
  calls.push_back(call_of("add_bias"));
  calls.back().replace("y", Tensor(Dtype::bf16, {2, 2}));
  calls.back().replace("bias", Tensor(Dtype::bf16, {2}));
  calls.push_back(call_of("approximate"));
  calls.back().replace("x", Tensor(Dtype::f32, {2, 2}));
  for (const char* op : {"dispatch", "combine", "map_experts"}) calls.push_back(call_of(op));
  return calls;
}

/// Every cause of every list, those of one list in its order.
TEST(HypothesesAboutACall, AreThoseOfAllLists) {
  const std::pair<const char*, CausesListed::Adds> lists[] = {
      {"rule", add_rule_hypotheses},
      {"block", add_block_hypotheses},
      {"input", add_input_hypotheses},
      {"code", add_code_hypotheses},
      {"addressing", add_addressing_hypotheses},
      {"route", add_route_hypotheses},
      {"activation", add_activation_hypotheses},
      {"limit", add_limit_hypotheses},
      {"rank", add_rank_hypotheses},
      {"rank_row", add_rank_row_hypotheses},
      {"fused_quantiser", add_fused_quantiser_hypotheses},
      {"scale_order", add_scale_order_hypotheses},
      {"precision", add_precision_hypotheses},
      {"shared_scales", add_shared_scales},
      {"sum", add_sum_hypotheses},
      {"output", add_output_hypotheses},
      {"partial", add_partial_hypotheses},
      {"setting", add_setting_hypotheses},
      {"left_out", add_left_out_hypotheses},
      {"elementwise", add_elementwise_hypotheses},
      {"index", add_index_hypotheses},
      {"double_rounding", add_double_rounding},
      {"bias", add_bias_hypotheses},
      {"unscaled", add_unscaled_hypotheses},
      {"approximate", add_approximate_hypotheses}};
  std::vector<Words> seen(std::size(lists));
  for (const Call& call : calls_of_all_kinds()) {
    Words expected;
    for (std::size_t i = 0; i < std::size(lists); ++i) {
      for (const std::string& phrase : CausesListed(call, lists[i].second).phrases()) {
        expected.push_back(phrase);
        seen[i].push_back(phrase);
      }
    }
    Words all;
    for (const Hypothesis& h : hypotheses_about(call)) all.push_back(h.phrase);
    EXPECT_EQ(all, expected) << call.op;
  }
  for (std::size_t i = 0; i < std::size(lists); ++i) {
    EXPECT_FALSE(seen[i].empty()) << lists[i].first;
  }
}

}  // namespace
}  // namespace mxo
