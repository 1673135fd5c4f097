// Routers that score, choose or weigh otherwise: what each gives, and of which calls it is thought.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
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
using Settings = std::map<std::string, std::string, std::less<>>;

CausesListed routers_of(const Call& call) { return {call, add_route_hypotheses}; }

Call routed_call(Tensor logits, Settings set) {
  Call call{"route", {}, Parameters(std::move(set))};
  call.replace("logits", std::move(logits));
  return call;
}

/// One token, whose experts are chosen by these numbers themselves.
Call by_logits(std::initializer_list<float> logits, Settings set) {
  set["score"] = "softmax_of_chosen";
  return routed_call(floats({1, static_cast<Index>(logits.size())}, logits), std::move(set));
}

/// What the router gives where a cause holds.
NamedTensors given(const CausesListed& causes, const char* cause, const char* words = "") {
  const Hypothesis& h = causes.at(cause, words);
  Call other = causes.call;
  if (!h.alter(other)) return {};
  return h.run ? h.run(*causes.backend, other) : run_call(*causes.backend, other);
}

Numbers experts_where(const Call& call, const char* cause, const char* words = "") {
  const NamedTensors out = given(routers_of(call), cause, words);
  return out.empty() ? Numbers{} : plain_numbers(out.at("experts"));
}

/// Logits of several tokens of which some are alike, expert 0's the least.
Tensor many_logits(Index tokens, Index experts, float far) {
  Tensor t(Dtype::f32, {tokens, experts});
  std::uint32_t seed = 5;
  for (Index i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.as<float>()[i] = i % experts == 0 ? far - 9 : far + static_cast<float>(seed >> 26) / 16;
  }
  return t;
}

Tensor some_bias(Index experts) {
  Tensor t(Dtype::f32, {experts});
  for (Index e = 1; e < experts; ++e) t.as<float>()[e] = static_cast<float>(e * 5 % 7) / 8;
  return t;
}

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : b) EXPECT_TRUE(same_bytes(a.at(name), tensor)) << name;
}

/// Without an expert that nobody chooses all is as the operator has it.
TEST(RouteHypotheses, AreOtherwiseTheOperator) {
  const Settings all[] = {
      {{"top_k", "3"}},
      {{"top_k", "3"}, {"score", "sigmoid"}, {"scale", "2.5"}},
      {{"top_k", "3"}, {"score", "sigmoid"}, {"normalize", "false"}},
      {{"top_k", "3"}, {"score", "softmax_of_chosen"}, {"scale", "0.5"}},
      {{"top_k", "3"}, {"score", "softmax_of_chosen"}, {"normalize", "false"}},
      {{"top_k", "3"}, {"groups", "4"}, {"limited_groups", "2"}},
      {{"top_k", "3"}, {"groups", "2"}, {"limited_groups", "1"}, {"score", "sigmoid"}},
      {{"top_k", "3"}, {"groups", "8"}, {"limited_groups", "4"}},
      {{"top_k", "3"}, {"groups", "2"}, {"limited_groups", "1"}, {"group_score", "best"}},
      {{"top_k", "3"}, {"groups", "4"}, {"limited_groups", "2"}, {"other_groups", "zero"}},
      Settings{}};
  for (const Settings& set : all) {
    for (const float far : {0.0f, -50.0f}) {
      Call call = routed_call(many_logits(16, 8, far), set);
      for (const bool biased : {false, true}) {
        if (biased) call.replace("bias", some_bias(8));
        const CausesListed causes = routers_of(call);
        expect_same(given(causes, "top_k=never", "expert 0 "), run_call(*causes.backend, call));
      }
    }
  }
}

TEST(RouteHypotheses, OfNarrowLogitsReadThem) {
  Call call = by_logits({1, 3, 2, 0}, {{"top_k", "2"}});
  call.replace("logits", tensor_from<BF16>(Dtype::bf16, {1, 4},
                                           {encode<kBF16>(1.0f), encode<kBF16>(3.0f),
                                            encode<kBF16>(2.0f), encode<kBF16>(0.0f)}));
  const CausesListed causes = routers_of(call);
  expect_same(given(causes, "top_k=never", "expert 3 "), run_call(*causes.backend, call));
}

TEST(RouteHypotheses, AreInWords) {
  const Words least{"expert 0 is never chosen",
                    "expert 3 is never chosen",
                    "the last slot takes choice 3 rather than choice 2",
                    "the best expert is passed over: choices begin with the second",
                    "slots are in the order of experts rather than of their scores",
                    "slots are in the order of experts, sorted after their weights were divided",
                    "scores are rounded to bf16 before they choose and weigh",
                    "ties go to the higher expert"};
  Call call = by_logits({1, 2, 3, 4}, {{"top_k", "2"}});
  EXPECT_EQ(routers_of(call).phrases(), least);
  for (const Hypothesis& h : routers_of(call).list) EXPECT_EQ(h.stage, Stage::rule);
  call.replace("bias", floats({4}, {1, 2, 3, 4}));
  EXPECT_EQ(routers_of(call).phrases("bias="),
            (Words{"the bias is left out", "the bias is added to the weights, too",
                   "the bias is subtracted rather than added", "the bias is added twice",
                   "experts take the bias of the expert before",
                   "experts take the bias of the expert after"}));
  call.set.set("groups", "4");
  call.set.set("limited_groups", "2");
  EXPECT_EQ(routers_of(call).phrases("groups=").front(),
            "a group of experts scores its largest choice rather than its two largest");
  EXPECT_EQ(routers_of(call).at("groups=sum").phrase,
            "a group of experts scores the sum of all its choices");
  EXPECT_EQ(routers_of(call).at("groups=unlimited").phrase, "experts are chosen from all groups");
  EXPECT_NE(routers_of(call).find("groups=another_limit",
                                  "experts are chosen from 3 groups rather than 2"),
            nullptr);
  EXPECT_EQ(routers_of(call).at("groups=strided").phrase,
            "expert e is taken for one of group e modulo 4");
  EXPECT_EQ(routers_of(by_logits({1, 2}, {})).at("top_k=next").phrase,
            "the last slot takes choice 2 rather than choice 1");
}

TEST(RouteHypotheses, AreOfLogitsInGroups) {
  EXPECT_EQ(routers_of({"route", {}, {}}).list.size(), 0u);
  EXPECT_EQ(routers_of(by_logits({1, 2, 3, 4}, {{"groups", "0"}})).list.size(), 0u);
  EXPECT_EQ(routers_of(by_logits({1, 2, 3, 4}, {{"groups", "3"}})).list.size(), 0u);
  Call call = by_logits({1, 2, 3, 4}, {});
  call.op = "router";
  EXPECT_EQ(routers_of(call).list.size(), 0u);
  call.op = "route";
  call.replace("logits", floats({4}, {1, 2, 3, 4}));
  EXPECT_EQ(routers_of(call).list.size(), 0u);
}

TEST(RouteHypotheses, OfOtherLimitsAreNextToThatOfTheCall) {
  const auto limits = [](const char* limit) {
    const CausesListed causes =
        routers_of(by_logits({1, 2, 3, 4}, {{"groups", "4"}, {"limited_groups", limit}}));
    Words all;
    for (const Hypothesis& h : causes.list) {
      Call other = causes.call;
      if (h.name != "groups=another_limit" || !h.alter(other)) continue;
      all.emplace_back(other.set.text("limited_groups", ""));
    }
    return all;
  };
  EXPECT_EQ(limits("2"), (Words{"1", "3"}));
  EXPECT_EQ(limits("1"), Words{"2"});
  EXPECT_EQ(limits("3"), Words{"2"}) << "all of them are no limit";
  EXPECT_EQ(limits("4"), Words{"3"});
  const CausesListed causes =
      routers_of(by_logits({1, 2, 3, 4}, {{"groups", "2"}, {"limited_groups", "1"}}));
  EXPECT_EQ(causes.altered("groups=unlimited").value().set.text("limited_groups", ""), "2");
}

TEST(RouteHypotheses, OfGroupsScoreThemOtherwise) {
  const Call call =
      by_logits({9, 0, 0, 6, 5, 0, 4, 4, 4}, {{"groups", "3"}, {"limited_groups", "1"}});
  EXPECT_EQ(experts_where(call, "top_k=never", "expert 8 "), Numbers{3}) << "6 + 5 are the most";
  EXPECT_EQ(experts_where(call, "groups=best"), Numbers{0});
  EXPECT_EQ(experts_where(call, "groups=sum"), Numbers{6});
  EXPECT_EQ(experts_where(call, "groups=strided"), Numbers{0}) << "experts 0, 3 and 6 are one";
  const Call best = by_logits({9, 0, 0, 6, 5, 0, 4, 4, 4},
                              {{"groups", "3"}, {"limited_groups", "1"}, {"group_score", "best"}});
  EXPECT_EQ(experts_where(best, "groups=two_best"), Numbers{3});
  EXPECT_TRUE(routers_of(best).names("groups=best").empty());
}

TEST(RouteHypotheses, OfStridedGroupsKeepTheirExperts) {
  const Call call =
      by_logits({5, 4, 1, 3}, {{"groups", "2"}, {"limited_groups", "1"}, {"top_k", "2"}});
  EXPECT_EQ(experts_where(call, "top_k=by_index"), (Numbers{0, 1}));
  EXPECT_EQ(experts_where(call, "groups=strided"), (Numbers{1, 3}));
}

TEST(RouteHypotheses, OfChoicesPassSomeOver) {
  const Call call = by_logits({1, 4, 2, 3}, {{"top_k", "2"}});
  EXPECT_EQ(experts_where(call, "top_k=never", "expert 3 "), (Numbers{1, 2}));
  EXPECT_EQ(experts_where(call, "top_k=next"), (Numbers{1, 2}));
  EXPECT_EQ(experts_where(call, "top_k=skips"), (Numbers{3, 2}));
  EXPECT_EQ(experts_where(by_logits({1, 4, 2}, {}), "top_k=next"), Numbers{2});
  EXPECT_EQ(experts_where(by_logits({4, 1, 3, 2}, {{"top_k", "3"}}), "top_k=by_index"),
            (Numbers{0, 2, 3}));
  EXPECT_EQ(experts_where(by_logits({2, 1, 2, 2}, {{"top_k", "2"}}), "ties=higher"),
            (Numbers{3, 2}));
}

TEST(RouteHypotheses, OfEqualGroupsTakeTheFirst) {
  const Call call = by_logits({5, 1, 5, 1, 0, 0}, {{"groups", "3"}, {"limited_groups", "1"}});
  EXPECT_EQ(experts_where(call, "top_k=never", "expert 5 "), Numbers{0});
}

TEST(RouteHypotheses, OfChoicesNeedEnoughExperts) {
  const Call most = by_logits({1, 4, 2}, {{"top_k", "2"}});
  EXPECT_EQ(experts_where(most, "top_k=next"), (Numbers{1, 0}));
  EXPECT_EQ(experts_where(most, "top_k=skips"), (Numbers{2, 0}));
  EXPECT_EQ(experts_where(most, "top_k=never", "expert 0 "), (Numbers{1, 2}));
  const Call all = by_logits({1, 4, 2}, {{"top_k", "3"}});
  for (const char* cause : {"top_k=next", "top_k=skips", "top_k=never"}) {
    EXPECT_TRUE(given(routers_of(all), cause).empty()) << cause;
  }
  EXPECT_EQ(experts_where(all, "ties=higher"), (Numbers{1, 2, 0}));
}

/// Scores of all experts of one call of sigmoids, and its bias.
struct Scored {
  Call call;
  std::vector<float> score;
};

Scored scored(Settings set) {
  set["score"] = "sigmoid";
  Scored s{routed_call(many_logits(1, 6, 0.0f),
                       {{"score", "sigmoid"}, {"top_k", "6"}, {"normalize", "false"}}),
           std::vector<float>(6)};
  const NamedTensors out = run_call(*make_reference_backend(), s.call);
  for (Index i = 0; i < 6; ++i) {
    s.score[static_cast<std::size_t>(out.at("experts").as<std::int32_t>()[i])] =
        out.at("weights").as<float>()[i];
  }
  s.call.set = Parameters(std::move(set));
  s.call.replace("bias", floats({6}, {0, 3, 0.5f, 2, 0.25f, 1}));
  return s;
}

TEST(RouteHypotheses, OfBiasesWeighToo) {
  const Scored s = scored({{"top_k", "2"}, {"normalize", "false"}, {"scale", "2"}});
  const NamedTensors out = given(routers_of(s.call), "bias=in_weights");
  EXPECT_EQ(plain_numbers(out.at("experts")), (Numbers{1, 3}));
  EXPECT_EQ(plain_numbers(out.at("weights")),
            (Numbers{(s.score[1] + 3) * 2, (s.score[3] + 2) * 2}));
  EXPECT_EQ(plain_numbers(out.at("tokens_per_expert")), (Numbers{0, 1, 0, 1, 0, 0}));
  Call without = s.call;
  without.inputs.erase("bias");
  const CausesListed causes = routers_of(s.call);
  expect_same(given(causes, "bias=left_out"), run_call(*causes.backend, without));
}

TEST(RouteHypotheses, OfBiasesAreOtherNumbers) {
  Call call = by_logits({1, 2, 3}, {});
  call.replace("bias", floats({3}, {4, 5, 6}));
  const CausesListed causes = routers_of(call);
  EXPECT_EQ(operand_if(causes, "bias=negative", "bias"), (Numbers{-4, -5, -6}));
  EXPECT_EQ(operand_if(causes, "bias=twice", "bias"), (Numbers{8, 10, 12}));
  EXPECT_EQ(operand_if(causes, "bias=other_expert", "bias", "before"), (Numbers{6, 4, 5}));
  EXPECT_EQ(operand_if(causes, "bias=other_expert", "bias", "after"), (Numbers{5, 6, 4}));
  call.replace("logits", floats({1, 2}, {1, 2}));
  call.replace("bias", floats({2}, {4, 5}));
  EXPECT_EQ(operand_if(routers_of(call), "bias=other_expert", "bias", "before"), (Numbers{5, 4}));
  call = by_logits({1}, {});
  call.replace("bias", floats({1}, {4}));
  EXPECT_FALSE(routers_of(call).altered("bias=twice")) << "of one expert";
}

/// Three weights whose sum depends on their order, which is that of slots.
TEST(RouteHypotheses, OfSlotsInOrderSumSoOrNot) {
  int apart = 0;
  for (Index t = 0; t < 16; ++t) {
    const Call call = routed_call(gathered(many_logits(16, 6, 0.0f), 0, {t}),
                                  {{"score", "sigmoid"}, {"top_k", "5"}});
    const CausesListed causes = routers_of(call);
    Call raw = call;
    raw.set.set("normalize", "false");
    const NamedTensors plain = run_call(*causes.backend, raw);
    std::vector<std::pair<double, float>> slots;
    float before = 0.0f;
    for (std::size_t s = 0; s < 5; ++s) {
      slots.emplace_back(plain.at("experts").as<std::int32_t>()[s],
                         plain.at("weights").as<float>()[s]);
      before += slots.back().second;
    }
    std::sort(slots.begin(), slots.end());
    float behind = 0.0f;
    for (const auto& slot : slots) behind += slot.second;
    apart += before != behind;
    Numbers experts;
    Numbers sorted_first;
    Numbers sorted_last;
    for (const auto& [e, w] : slots) {
      experts.push_back(e);
      sorted_first.push_back(w / (behind + 1e-20f));
      sorted_last.push_back(w / (before + 1e-20f));
    }
    const NamedTensors first = given(causes, "top_k=by_index", "rather");
    const NamedTensors last = given(causes, "top_k=by_index", "divided");
    EXPECT_EQ(plain_numbers(first.at("experts")), experts);
    EXPECT_EQ(plain_numbers(last.at("experts")), experts);
    EXPECT_EQ(plain_numbers(first.at("weights")), sorted_first);
    EXPECT_EQ(plain_numbers(last.at("weights")), sorted_last);
  }
  EXPECT_GT(apart, 0);
}

}  // namespace
}  // namespace mxo
