// Routers that score, choose or weigh in another way, from the scores of the operator itself.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "formats/exp.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

enum class GroupScore : std::uint8_t { two_best, best, sum };

/// How a router departs from the definition.
struct Router {
  bool bias_in_weights = false;
  bool bias_left_out = false;
  bool ties_to_higher = false;
  bool by_index = false;             ///< slots in the order of experts
  bool sum_first = false;            ///< weights are added up before that
  std::optional<GroupScore> groups;  ///< empty: as the call says
  Index skipped = 0;                 ///< best experts that are passed over
  bool next = false;                 ///< the last slot takes the choice after its own
  Index never = -1;                  ///< an expert that is not looked at
  bool strided = false;              ///< expert e is one of group e modulo groups
  bool bf16_scores = false;          ///< before they choose and weigh
  bool least_minus_1 = false;        ///< a search for the best that begins at -1 finds expert 0
};

bool weighs_chosen_logits(const Call& call) {
  return call.set.text("score", "softmax") == "softmax_of_chosen";
}

bool best_of_groups(const Call& call) { return call.set.text("group_score", "two_best") == "best"; }

/// Scores [T, E] of the call: every expert's weight, as it is before it is divided or scaled.
std::vector<float> scores_of(Backend& backend, const Call& call, Index experts) {
  if (weighs_chosen_logits(call)) {
    const Tensor& logits = call.input("logits");
    const ElementReader read(logits.dtype());
    std::vector<float> values;
    for (Index i = 0; i < logits.elements(); ++i) {
      values.push_back(static_cast<float>(read(bits_at(logits, i)).value));
    }
    return values;
  }
  Call all = call;
  all.inputs.erase("bias");
  all.set = {};
  all.set.set("score", std::string(call.set.text("score", "softmax")));
  all.set.set("top_k", std::to_string(experts));
  all.set.set("normalize", "false");
  const NamedTensors out = run_call(backend, all);
  const Tensor& order = out.at("experts");
  std::vector<float> scores(static_cast<std::size_t>(order.elements()));
  for (Index i = 0; i < order.elements(); ++i) {
    const Index at = i / experts * experts + order.as<std::int32_t>()[i];
    scores[static_cast<std::size_t>(at)] = out.at("weights").as<float>()[i];
  }
  return scores;
}

/// Experts in ascending order, each with its weight.
void sort_both(std::vector<Index>& experts, std::vector<float>& weights) {
  std::vector<std::pair<Index, float>> slots;
  for (std::size_t s = 0; s < experts.size(); ++s) slots.emplace_back(experts[s], weights[s]);
  std::sort(slots.begin(), slots.end());
  for (std::size_t s = 0; s < slots.size(); ++s) {
    experts[s] = slots[s].first;
    weights[s] = slots[s].second;
  }
}

float group_score(std::vector<float> choices, GroupScore how) {
  std::sort(choices.begin(), choices.end(), std::greater<>());
  if (how == GroupScore::best || choices.size() == 1) return choices.front();
  if (how == GroupScore::two_best) return choices[0] + choices[1];
  return std::accumulate(choices.begin(), choices.end(), 0.0f);
}

NamedTensors routed(Backend& backend, const Call& call, const Router& rule) {
  const Tensor& logits = call.input("logits");
  const Index tokens = logits.extent(0);
  const Index experts = logits.extent(1);
  const Index k = call.set.integer("top_k", 1);
  const Index groups = call.set.integer("groups", 1);
  const Index limited = call.set.integer("limited_groups", groups);
  const Index run = experts / groups;
  const GroupScore scored =
      rule.groups.value_or(best_of_groups(call) ? GroupScore::best : GroupScore::two_best);
  const bool others_are_zero = call.set.text("other_groups", "excluded") == "zero";
  const auto factor = static_cast<float>(call.set.real("scale", 1.0));
  std::vector<float> scores = scores_of(backend, call, experts);
  if (rule.bf16_scores) {
    for (float& v : scores) v = decode(encode<kBF16>(v));
  }
  const bool biased = call.has("bias") && !rule.bias_left_out;
  Tensor chosen(Dtype::i32, {tokens, k});
  Tensor weights(Dtype::f32, {tokens, k});
  Tensor counts(Dtype::i32, {experts});
  for (Index t = 0; t < tokens; ++t) {
    std::vector<float> choice(static_cast<std::size_t>(experts));
    for (Index e = 0; e < experts; ++e) {
      choice[static_cast<std::size_t>(e)] = scores[static_cast<std::size_t>(t * experts + e)] +
                                            (biased ? call.input("bias").as<float>()[e] : 0.0f);
    }
    std::vector<Index> best(static_cast<std::size_t>(groups));
    std::iota(best.begin(), best.end(), Index{0});
    std::vector<float> of_group;
    const auto group_of = [&](Index e) { return rule.strided ? e % groups : e / run; };
    std::vector<std::vector<float>> members(static_cast<std::size_t>(groups));
    for (Index e = 0; e < experts; ++e) {
      members[static_cast<std::size_t>(group_of(e))].push_back(choice[static_cast<std::size_t>(e)]);
    }
    for (std::vector<float>& m : members) of_group.push_back(group_score(std::move(m), scored));
    std::stable_sort(best.begin(), best.end(), [&](Index a, Index b) {
      return of_group[static_cast<std::size_t>(a)] > of_group[static_cast<std::size_t>(b)];
    });
    std::vector<Index> order;
    for (Index e = 0; e < experts; ++e) {
      const bool stays =
          std::find(best.begin(), best.begin() + limited, group_of(e)) != best.begin() + limited;
      if (!stays && others_are_zero) choice[static_cast<std::size_t>(e)] = 0.0f;
      if ((stays || others_are_zero) && e != rule.never) order.push_back(e);
    }
    if (rule.ties_to_higher) std::reverse(order.begin(), order.end());
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return choice[static_cast<std::size_t>(a)] > choice[static_cast<std::size_t>(b)];
    });
    if (static_cast<Index>(order.size()) < k + rule.skipped + (rule.next ? 1 : 0)) return {};
    if (rule.next && k > 0) order.erase(order.begin() + k - 1);
    order.erase(order.begin(), order.begin() + rule.skipped);
    order.resize(static_cast<std::size_t>(k));
    for (Index& e : order) {
      if (rule.least_minus_1 && choice[static_cast<std::size_t>(e)] < -1.0f) e = 0;
    }
    if (rule.by_index && !rule.sum_first) std::sort(order.begin(), order.end());
    std::vector<float> w;
    for (const Index e : order) {
      w.push_back(rule.bias_in_weights ? choice[static_cast<std::size_t>(e)]
                                       : scores[static_cast<std::size_t>(t * experts + e)]);
    }
    float sum = 0.0f;
    const float top = w.empty() ? 0.0f : *std::max_element(w.begin(), w.end());
    for (float& v : w) {
      if (weighs_chosen_logits(call)) v = exp_rn(v - top);
      sum += v;
    }
    if (weighs_chosen_logits(call)) {
      for (float& v : w) v /= sum;
    }
    if (rule.by_index && rule.sum_first) sort_both(order, w);
    for (Index s = 0; s < k; ++s) {
      const auto at = static_cast<std::size_t>(s);
      const bool divides = call.set.flag("normalize", true) && !weighs_chosen_logits(call);
      const float share = divides ? w[at] / (sum + 1e-20f) : w[at];
      chosen.as<std::int32_t>()[t * k + s] = static_cast<std::int32_t>(order[at]);
      weights.as<float>()[t * k + s] = share * factor;
      ++counts.as<std::int32_t>()[order[at]];
    }
  }
  NamedTensors out;
  out.emplace("experts", std::move(chosen));
  out.emplace("weights", std::move(weights));
  out.emplace("tokens_per_expert", std::move(counts));
  return out;
}

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, const Router& rule) {
  Hypothesis h{std::move(name), std::move(phrase), Stage::rule};
  h.run = [rule](Backend& b, const Call& c) { return routed(b, c, rule); };
  list.push_back(std::move(h));
}

void add_setting(std::vector<Hypothesis>& list, const std::string& key, const std::string& value,
                 const std::string& id, std::string phrase) {
  list.push_back({id, std::move(phrase), Stage::rule, [key, value](Call& c) {
                    c.set.set(key, value);
                    return true;
                  }});
}

/// Logits of two bytes each taken for f32; beyond the end of them zeros.
bool read_as_f32(Call& call) {
  const Tensor& given = call.input("logits");
  Tensor seen(Dtype::f32, given.shape());
  std::memcpy(seen.data(), given.data(), given.bytes());
  call.replace("logits", std::move(seen));
  return true;
}

}  // namespace

void add_route_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op != "route" || !call.has("logits") || call.input("logits").rank() != 2) return;
  const Index experts = call.input("logits").extent(1);
  const Index groups = call.set.integer("groups", 1);
  if (groups < 1 || experts % groups != 0) return;
  const auto rule = [&](std::string name, std::string phrase, auto edit) {
    Router r;
    edit(r);
    add(list, std::move(name), std::move(phrase), r);
  };
  if (groups > 1) {
    if (best_of_groups(call)) {
      rule("groups=two_best",
           "a group of experts scores its two largest choices rather than its largest",
           [](Router& r) { r.groups = GroupScore::two_best; });
    } else {
      rule("groups=best",
           "a group of experts scores its largest choice rather than its two largest",
           [](Router& r) { r.groups = GroupScore::best; });
    }
    rule("groups=sum", "a group of experts scores the sum of all its choices",
         [](Router& r) { r.groups = GroupScore::sum; });
    add_setting(list, "limited_groups", std::to_string(groups), "groups=unlimited",
                "experts are chosen from all groups");
    const Index limited = call.set.integer("limited_groups", groups);
    for (const Index other : {limited - 1, limited + 1}) {
      if (other < 1 || other >= groups) continue;
      add_setting(list, "limited_groups", std::to_string(other), "groups=another_limit",
                  "experts are chosen from " + std::to_string(other) + " groups rather than " +
                      std::to_string(limited));
    }
    rule("groups=strided", "expert e is taken for one of group e modulo " + std::to_string(groups),
         [](Router& r) { r.strided = true; });
  }
  for (const Index e : {Index{0}, experts - 1}) {
    rule("top_k=never", "expert " + std::to_string(e) + " is never chosen",
         [e](Router& r) { r.never = e; });
  }
  if (call.has("bias")) {
    rule("bias=left_out", "the bias is left out", [](Router& r) { r.bias_left_out = true; });
    rule("bias=in_weights", "the bias is added to the weights, too",
         [](Router& r) { r.bias_in_weights = true; });
    const auto biased = [&](std::string id, std::string phrase, auto of) {
      list.push_back({"bias=" + std::move(id), std::move(phrase), Stage::rule, [of](Call& c) {
                        Tensor bias = c.input("bias");
                        const Index n = bias.elements();
                        for (Index e = 0; e < n; ++e) {
                          bias.as<float>()[e] = of(c.input("bias").as<float>(), e, n);
                        }
                        c.replace("bias", std::move(bias));
                        return n > 1;
                      }});
    };
    biased("negative", "the bias is subtracted rather than added",
           [](const float* b, Index e, Index) { return -b[e]; });
    biased("twice", "the bias is added twice",
           [](const float* b, Index e, Index) { return 2.0f * b[e]; });
    biased("other_expert", "experts take the bias of the expert before",
           [](const float* b, Index e, Index n) { return b[(e + n - 1) % n]; });
    biased("other_expert", "experts take the bias of the expert after",
           [](const float* b, Index e, Index n) { return b[(e + 1) % n]; });
  }
  const Index k = call.set.integer("top_k", 1);
  rule("top_k=next",
       "the last slot takes choice " + std::to_string(k + 1) + " rather than choice " +
           std::to_string(k),
       [](Router& r) { r.next = true; });
  rule("top_k=skips", "the best expert is passed over: choices begin with the second",
       [](Router& r) { r.skipped = 1; });
  rule("top_k=by_index", "slots are in the order of experts rather than of their scores",
       [](Router& r) { r.by_index = true; });
  rule("top_k=by_index",
       "slots are in the order of experts, sorted after their weights were divided",
       [](Router& r) { r.by_index = r.sum_first = true; });
  rule("score=bf16", "scores are rounded to bf16 before they choose and weigh",
       [](Router& r) { r.bf16_scores = true; });
  if (call.has("bias")) {
    rule("top_k=least_minus_1", "choices below -1 are not found: their slots take expert 0",
         [](Router& r) { r.least_minus_1 = true; });
  }
  if (call.input("logits").dtype() == Dtype::bf16) {
    list.push_back({"logits=as_f32", "the bytes of bf16 logits are read as f32, two logits as one",
                    Stage::input, read_as_f32});
  }
  rule("ties=higher", "ties go to the higher expert", [](Router& r) { r.ties_to_higher = true; });
}

}  // namespace mxo
