// Routers that score, choose or weigh in another way, from the scores of the operator itself.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "formats/exp.h"
#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

/// How a router departs from the definition.
struct Router {
  bool bias_in_weights = false;
  bool ties_to_higher = false;
  bool by_index = false;        ///< slots in the order of experts
  bool sum_first = false;       ///< weights are added up before that
  bool sum_of_groups = false;   ///< a group scores the sum of all its choices
  bool strided = false;         ///< expert e is one of group e modulo groups
  bool next = false;            ///< the last slot takes the choice after its own
  bool bf16_scores = false;     ///< before they choose and weigh
  bool bf16_choices = false;    ///< scores, bias and their sum, before they choose
  bool bf16_groups = false;     ///< the score of a group
  bool drops_last = false;      ///< of one choice more, in the order of experts, not the least
  bool least = false;           ///< the experts that score least are chosen
  bool less_bias = false;       ///< weights are choices less the bias, in f32
  bool least_minus_1 = false;   ///< a search for the best that begins at -1 finds expert 0
  bool ties_once = false;       ///< the two best of a group are two values
  bool reciprocal = false;      ///< weights are multiplied by 1 / sum, rounded
  bool biased_sum = false;      ///< weights are divided by the sum of choices
  bool plain_groups = false;    ///< groups score without the bias
  float floor = -HUGE_VALF;     ///< of choices, where groups score
  float added = 1e-20f;         ///< to the sum of weights
  Index skipped = 0;            ///< best experts that are passed over
  Index never = -1;             ///< the first expert that is not looked at
  Index nevers = 1;             ///< how many there are
  Index every = 1;              ///< experts are looked at only if their number is, modulo this,
  Index remainder = 0;          ///< this
  Index more_in_sum = 0;        ///< choices past the last that are summed, too
  const char* again = nullptr;  ///< scores are the logits of this score
};

bool weighs_chosen_logits(const Call& call) {
  return call.set.text("score", "softmax") == "softmax_of_chosen";
}

bool best_of_groups(const Call& call) { return call.set.text("group_score", "two_best") == "best"; }

/// Scores [T, E] of the call: every expert's weight, as it is before it is divided or scaled.
std::vector<float> scores_of(Backend& backend, const Call& call, Index experts) {
  const Tensor& logits = call.input("logits");
  std::vector<float> scores(static_cast<std::size_t>(logits.elements()));
  if (weighs_chosen_logits(call)) {
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = wide_value(logits, static_cast<Index>(i));
    return scores;
  }
  Call all{call.op, call.inputs,
           Parameters({{"score", std::string(call.set.text("score", "softmax"))},
                       {"top_k", std::to_string(experts)},
                       {"normalize", "false"}}),
           call.world, call.work};
  all.inputs.erase("bias");
  const NamedTensors out = run_call(backend, all);
  const auto* order = out.at("experts").as<std::int32_t>();
  for (Index i = 0; i < logits.elements(); ++i)
    scores.data()[i / experts * experts + order[i]] = out.at("weights").as<float>()[i];
  return scores;
}

/// The indices of `order`, those of the largest values first.
std::vector<Index> sorted_by(const float* values, std::vector<Index> order) {
  std::stable_sort(order.begin(), order.end(),
                   [values](Index a, Index b) { return values[a] > values[b]; });
  return order;
}

/// One expert that a token is sent to.
struct Slot {
  Index expert;
  float weight;
};

/// The router of a call that departs from it as a rule says.
class OtherRouter {
 public:
  OtherRouter(Backend& backend, const Call& call, const Router& rule)
      : call_(call),
        rule_(rule),
        experts_(call.input("logits").extent(1)),
        k_(call.set.integer("top_k", 1)),
        groups_(call.set.integer("groups", 1)),
        limited_(call.set.integer("limited_groups", groups_)),
        scores_(scores_of(backend, call, experts_)) {
    if (rule.again != nullptr) {
      Call twice = call;
      twice.set.set("score", rule.again);
      twice.replace("logits", with_values(Tensor(Dtype::f32, call.input("logits").shape()),
                                          [&](Index i) { return scores_.data()[i]; }));
      scores_ = scores_of(backend, twice, experts_);
    }
    if (!rule.bf16_scores) return;
    for (float& v : scores_) v = decode(encode<kBF16>(v));
  }

  /// The outputs; none where there are too few experts.
  NamedTensors outputs() const {
    const Index tokens = call_.input("logits").extent(0);
    Tensor chosen(Dtype::i32, {tokens, k_});
    Tensor weights(Dtype::f32, {tokens, k_});
    Tensor counts(Dtype::i32, {experts_});
    for (Index t = 0; t < tokens; ++t) {
      const std::vector<Slot> slots = slots_of_token(t);
      if (slots.empty() && k_ > 0) return {};
      for (std::size_t s = 0; s < slots.size(); ++s) {
        const Index at = t * k_ + static_cast<Index>(s);
        chosen.as<std::int32_t>()[at] = static_cast<std::int32_t>(slots[s].expert);
        weights.as<float>()[at] = slots[s].weight;
        ++counts.as<std::int32_t>()[slots[s].expert];
      }
    }
    NamedTensors out;
    out.emplace("experts", std::move(chosen));
    out.emplace("weights", std::move(weights));
    out.emplace("tokens_per_expert", std::move(counts));
    return out;
  }

 private:
  Index group_of(Index e) const { return rule_.strided ? e % groups_ : e / (experts_ / groups_); }

  bool is_looked_at(Index e) const {
    const bool never = e >= rule_.never && e < rule_.never + rule_.nevers;
    return !never && e % rule_.every == rule_.remainder;
  }

  float score_of_group(const std::vector<float>& choices) const {
    if (rule_.sum_of_groups) return std::accumulate(choices.begin(), choices.end(), 0.0f);
    if (best_of_groups(call_) || choices.size() == 1) return choices.front();
    if (!rule_.ties_once) return choices[0] + choices[1];
    const auto second =
        std::find_if(choices.begin(), choices.end(), [&](float c) { return c != choices.front(); });
    return choices.front() +
           (second == choices.end() ? -std::numeric_limits<float>::infinity() : *second);
  }

  /// The groups that a token's experts are chosen from.
  std::set<Index> chosen_groups(const float* choice) const {
    std::vector<std::vector<float>> members(static_cast<std::size_t>(groups_));
    for (const Index e : sorted_by(choice, range_of(experts_)))
      members.data()[group_of(e)].push_back(std::max(choice[e], rule_.floor));
    std::vector<float> scores;
    for (const std::vector<float>& best_first : members) {
      const float score = score_of_group(best_first);
      scores.push_back(rule_.bf16_groups ? by_bf16(score) : score);
    }
    const std::vector<Index> best = sorted_by(scores.data(), range_of(groups_));
    return {best.begin(), best.begin() + limited_};
  }

  /// The experts of a token, best first; none where there are too few.  Choices of groups that
  /// are left out become 0 where the call says so.
  std::vector<Index> experts_of(const float* scores, float* choice) const {
    const bool others_are_zero = call_.set.text("other_groups", "excluded") == "zero";
    const std::set<Index> chosen = chosen_groups(rule_.plain_groups ? scores : choice);
    std::vector<Index> order;
    for (Index e = 0; e < experts_; ++e) {
      const bool stays = chosen.contains(group_of(e));
      if (!stays && others_are_zero) choice[e] = 0.0f;
      if ((stays || others_are_zero) && is_looked_at(e)) order.push_back(e);
    }
    if (rule_.ties_to_higher) std::reverse(order.begin(), order.end());
    order = sorted_by(choice, std::move(order));
    if (rule_.least) std::reverse(order.begin(), order.end());
    const Index taken = k_ + rule_.more_in_sum + (rule_.drops_last ? 1 : 0);
    if (static_cast<Index>(order.size()) < taken + rule_.skipped + (rule_.next ? 1 : 0)) return {};
    if (rule_.next && k_ > 0) order.erase(order.begin() + k_ - 1);
    order.erase(order.begin(), order.begin() + rule_.skipped);
    order.resize(static_cast<std::size_t>(taken));
    for (Index& e : order)
      if (rule_.least_minus_1 && choice[e] < -1.0f) e = 0;
    if (rule_.by_index && !rule_.sum_first) std::sort(order.begin(), order.end());
    if (rule_.drops_last) order.pop_back();
    return order;
  }

  std::vector<Slot> slots_of_token(Index t) const {
    const float* scores = scores_.data() + t * experts_;
    std::vector<float> choice(scores, scores + experts_);
    const auto rounded = [this](float v) { return rule_.bf16_choices ? by_bf16(v) : v; };
    for (Index e = 0; e < experts_; ++e) {
      float& c = choice.data()[e];
      c = rounded(c);
      if (call_.has("bias")) c = rounded(c + rounded(call_.input("bias").as<float>()[e]));
    }
    std::vector<Slot> slots;
    float top = -std::numeric_limits<float>::infinity();
    float biased = 0.0f;
    for (const Index e : experts_of(scores, choice.data())) {
      biased += choice.data()[e];
      slots.push_back({e, rule_.bias_in_weights ? choice.data()[e] : scores[e]});
      if (rule_.less_bias && call_.has("bias"))
        slots.back().weight = choice.data()[e] - call_.input("bias").as<float>()[e];
      top = std::max(top, slots.back().weight);
    }
    const bool softmax = weighs_chosen_logits(call_);
    float sum = 0.0f;
    for (Slot& s : slots) {
      if (softmax) s.weight = exp_rn(s.weight - top);
      sum += s.weight;
    }
    if (rule_.by_index && rule_.sum_first) {
      std::sort(slots.begin(), slots.end(),
                [](const Slot& a, const Slot& b) { return a.expert < b.expert; });
    }
    const auto factor = static_cast<float>(call_.set.real("scale", 1.0));
    const bool divides = softmax || call_.set.flag("normalize", true);
    for (Slot& s : slots) {
      const float by = softmax ? sum : (rule_.biased_sum ? biased : sum) + rule_.added;
      if (divides) s.weight = rule_.reciprocal ? s.weight * (1.0f / by) : s.weight / by;
      s.weight *= factor;
    }
    if (!slots.empty()) slots.resize(static_cast<std::size_t>(k_));
    return slots;
  }

  const Call& call_;
  const Router& rule_;
  Index experts_;
  Index k_;
  Index groups_;
  Index limited_;
  std::vector<float> scores_;
};

void add_router(List& list, std::string name, std::string phrase, const Router& rule) {
  add_run(list, std::move(name), std::move(phrase),
          [rule](Backend& b, const Call& c) { return OtherRouter(b, c, rule).outputs(); });
}

void add_groups(const Call& call, Index groups, List& list) {
  const bool best = best_of_groups(call);
  add_set(list, "group_score", best ? "two_best" : "best",
          filled("a group of experts scores {}",
                 best ? "its two largest choices rather than its largest"
                      : "its largest choice rather than its two largest"),
          best ? "groups=two_best" : "groups=best");
  add_set(list, "limited_groups", std::to_string(groups), "experts are chosen from all groups",
          "groups=unlimited");
  const Index limited = call.set.integer("limited_groups", groups);
  for (const Index other : {limited - 1, limited + 1})
    if (other >= 1 && other < groups)
      add_set(list, "limited_groups", std::to_string(other),
              filled("experts are chosen from {} groups rather than {}", other, limited),
              "groups=another_limit");
}

/// Of from + 1 to `to` the number that the largest power of two divides.
Index roundest(Index from, Index to) {
  Index power = 1;
  while (to / (2 * power) * 2 * power > from) power *= 2;
  return to / power * power;
}

struct OtherRule {
  const char* name;
  const char* phrase;
  Router rule;
};

constexpr OtherRule kRules[] = {
    {"groups=sum", "a group of experts scores the sum of all its choices", {.sum_of_groups = true}},
    {"groups=unbiased", "groups of experts are chosen without the bias", {.plain_groups = true}},
    {"groups=padded",
     "groups score 0 for negative choices, as their padding does",
     {.floor = 0.0f}},
    {"groups=strided", "expert e is taken for one of group e modulo {}", {.strided = true}},
    {"bias=in_weights", "the bias is added to the weights, too", {.bias_in_weights = true}},
    {"top_k=skips",
     "the best expert is passed over: choices begin with the second",
     {.skipped = 1}},
    {"top_k=by_index",
     "slots are in the order of experts rather than of their scores",
     {.by_index = true}},
    {"top_k=by_index",
     "slots are in the order of experts, sorted after their weights were divided",
     {.by_index = true, .sum_first = true}},
    {"top_k=drops_last",
     "of one choice more than is taken, in the order of experts, the last is dropped rather than "
     "the least",
     {.by_index = true, .drops_last = true}},
    {"score=bf16",
     "scores are rounded to bf16 before they choose and weigh",
     {.bf16_scores = true}},
    {"top_k=least_minus_1",
     "choices below -1 are not found: their slots take expert 0",
     {.least_minus_1 = true}},
    {"normalize=one_more",
     "weights are divided by the sum of one more choice than is taken",
     {.more_in_sum = 1}},
    {"choices=bf16", "choices are rounded to bf16, and weights are not", {.bf16_choices = true}},
    {"groups=bf16", "scores of groups are rounded to bf16", {.bf16_groups = true}},
    {"choices=bf16",
     "choices and scores of groups are rounded to bf16, and weights are not",
     {.bf16_choices = true, .bf16_groups = true}},
    {"groups=ties_once",
     "of equal choices of a group one counts among its two best",
     {.ties_once = true}},
    {"normalize=reciprocal",
     "weights are multiplied by the rounded reciprocal of their sum rather than divided by it",
     {.reciprocal = true}},
    {"normalize=bare_sum",
     "1e-20 is not added to the sum of the weights, and 0 / 0 is NaN",
     {.added = 0.0f}},
    {"normalize=biased_sum",
     "weights are divided by the sum of the choices, bias and all",
     {.biased_sum = true}},
    {"score=softmax_again", "softmax is taken once more, of the scores", {.again = "softmax"}},
    {"score=sigmoid_again", "sigma is taken once more, of the scores", {.again = "sigmoid"}},
    {"ties=higher", "ties go to the higher expert", {.ties_to_higher = true}},
    {"top_k=least", "the experts that score least are chosen", {.least = true}},
    {"bias=recovered",
     "weights are choices less the bias: what the sum of both loses in f32 is missing",
     {.less_bias = true}},
};

}  // namespace

void add_route_hypotheses(const Call& call, List& list) {
  if (call.op != "route") return;
  const Index experts = call.input("logits").extent(1);
  const Index groups = call.set.integer("groups", 1);
  if (groups > 1) add_groups(call, groups, list);
  for (const Index e : {Index{0}, experts - 1})
    add_router(list, "top_k=never", filled("expert {} is never chosen", e), {.never = e});
  const Index k = call.set.integer("top_k", 1);
  add_router(list, "top_k=next",
             filled("the last slot takes choice {} rather than choice {}", k + 1, k),
             {.next = true});
  for (const OtherRule& row : kRules)
    add_router(list, row.name, filled(row.phrase, groups), row.rule);
  for (const char* added : {"1e-12", "1e-9", "1e-8", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2"})
    add_router(list, "normalize=added",
               filled("{} is added to the sum of the weights rather than 1e-20", added),
               {.added = std::strtof(added, nullptr)});
  add_written_slots(call, list);
}

void add_never_chosen(const Call& call, const Output& o, List& list) {
  if (call.op != "route" || o.name != "experts" || o.left == 0) return;
  const Index experts = call.input("logits").extent(1);
  const auto numbers_of = [](const Tensor& t) {
    return std::set<Index>(t.as<std::int32_t>(), t.as<std::int32_t>() + t.elements());
  };
  const std::set<Index> came = numbers_of(*o.actual);
  std::set<Index> missing = numbers_of(*o.expected);
  std::erase_if(missing, [&](Index e) { return came.contains(e); });
  if (missing.empty() || *came.begin() < 0) return;
  const auto after = came.upper_bound(*missing.rbegin());
  const auto begin = came.lower_bound(*missing.begin());
  const Index before = begin == came.begin() ? -1 : *std::prev(begin);
  Router rule{.never = *missing.begin(), .nevers = std::ssize(missing)};
  std::string which;
  if (after != begin) {
    rule = {.every = 0};
    for (const Index e : came) rule.every = std::gcd(rule.every, e - *came.begin());
    if (rule.every < 2) return;
    rule.remainder = *came.begin() % rule.every;
    which = filled("experts whose number is not {} modulo {}", rule.remainder, rule.every);
  } else if (after == came.end()) {
    rule.never = roundest(before, rule.never);
    rule.nevers = experts - rule.never;
    which = filled("experts from {} on", rule.never);
  } else if (before < 0) {
    rule.never = 0;
    rule.nevers = roundest(*missing.rbegin(), *after);
    which = filled("experts below {}", rule.nevers);
  } else {
    rule.nevers = *missing.rbegin() + 1 - rule.never;
    which = filled("experts {} to {}", rule.never, *missing.rbegin());
  }
  const bool one = rule.nevers == 1 && rule.every == 1;
  add_router(list, "top_k=never",
             one ? filled("expert {} is never chosen", rule.never) : which + " are never chosen",
             rule);
}

}  // namespace mxo
