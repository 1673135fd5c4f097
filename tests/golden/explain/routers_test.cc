// Routers that score, choose or weigh in another way, as a table: each token's slots by the rule.
#include <bit>
#include <cmath>
#include <numeric>

#include "golden/explain/hypotheses.h"
#include "tests/golden/planted.h"

namespace mxo::routers_test {
namespace {

constexpr Index kTokens = 96;

/// A call with an operand of f32 or bf16 whose element i is of(given, i).
Call edited(Call call, const char* name, const std::function<float(float, Index)>& of) {
  call.replace(name, mapped(call.input(name), [&](Index i, float v) { return of(v, i); }));
  return call;
}

Call route(Index experts, Settings more, bool biased = false, Dtype dtype = Dtype::f32) {
  NamedTensors in;
  in.emplace("logits", dtype == Dtype::f32 ? random_floats({kTokens, experts}, 7)
                                           : random_bf16({kTokens, experts}, 7));
  if (biased) in.emplace("bias", random_floats({experts}, 3));
  Parameters set = with({{"top_k", "4"}, {"score", "sigmoid"}});
  for (const auto& [key, value] : more) set.set(key, value);
  const Call call = make_call("route", in, set);
  return biased ? edited(call, "bias", [](float v, Index) { return 0.1f * v; }) : call;
}

/// What a rule of a test sees of a token, experts in order of their number, and makes of it.
struct Token {
  std::vector<float> score;   ///< of every expert
  std::vector<float> choice;  ///< with the bias
  std::vector<Index> slots;   ///< experts, best first
};

std::vector<Index> best_of(const std::vector<float>& choice) {
  std::vector<Index> order(choice.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    return choice[static_cast<std::size_t>(a)] > choice[static_cast<std::size_t>(b)];
  });
  return order;
}

/// The outputs of a router whose tokens take the first four of `slots` and weigh them by `score`.
Planted chosen(Backend& b, const Call& call, const std::function<void(Token&)>& rule) {
  const Index experts = call.input("logits").extent(1);
  Call all = call;
  all.inputs.erase("bias");
  all.set =
      with({{"score", "sigmoid"}, {"normalize", "false"}, {"top_k", std::to_string(experts)}});
  const NamedTensors scores = run_call(b, all);
  return spoiled(b, call, [&](NamedTensors& out) {
    auto* counts = out.at("tokens_per_expert").as<std::int32_t>();
    std::fill_n(counts, experts, 0);
    for (Index t = 0; t < kTokens; ++t) {
      Token token{std::vector<float>(static_cast<std::size_t>(experts)), {}, {}};
      for (Index i = t * experts; i < (t + 1) * experts; ++i) {
        const auto e = static_cast<std::size_t>(scores.at("experts").as<std::int32_t>()[i]);
        token.score[e] = scores.at("weights").as<float>()[i];
      }
      token.choice = token.score;
      for (Index e = 0; e < experts && call.has("bias"); ++e)
        token.choice[static_cast<std::size_t>(e)] += call.input("bias").as<float>()[e];
      token.slots = best_of(token.choice);
      rule(token);
      float sum = 0;
      for (std::size_t s = 0; s < 4; ++s)
        sum += token.score[static_cast<std::size_t>(token.slots[s])];
      for (Index s = 0; s < 4; ++s) {
        const Index e = token.slots[static_cast<std::size_t>(s)];
        out.at("experts").as<std::int32_t>()[t * 4 + s] = static_cast<std::int32_t>(e);
        out.at("weights").as<float>()[t * 4 + s] =
            token.score[static_cast<std::size_t>(e)] / (sum + 1e-20f);
        ++counts[e];
      }
    }
  });
}

/// Slots of the two groups of eight experts whose choices score best, expert e in group of(e).
template <typename Score>
void limit_groups(Token& token, Index (*group_of)(Index), Score score) {
  std::vector<std::vector<float>> members(4);
  for (Index e = 0; e < 32; ++e)
    members[static_cast<std::size_t>(group_of(e))].push_back(
        token.choice[static_cast<std::size_t>(e)]);
  std::vector<float> scores;
  for (std::vector<float>& m : members) {
    std::sort(m.begin(), m.end(), std::greater<>());
    scores.push_back(score(m));
  }
  const std::vector<Index> best = best_of(scores);
  std::erase_if(token.slots,
                [&](Index e) { return group_of(e) != best[0] && group_of(e) != best[1]; });
}

const Settings kGroups = "groups=4 limited_groups=2";
const Settings kBest = "groups=4 limited_groups=2 group_score=best";
const Settings kHalf = "groups=8 limited_groups=4";
const Settings kScaled = "scale=1.5";
const Settings kSoftmax = "score=softmax";
float two_best(const std::vector<float>& m) { return m[0] + m[1]; }
float sum_of(const std::vector<float>& m) { return std::accumulate(m.begin(), m.end(), 0.0f); }
Index eights(Index e) { return e / 8; }
Index strided(Index e) { return e % 4; }
float narrow(float v) { return decode(encode<kBF16>(v)); }

/// A rule of slots, or of weights, of each token.
struct RuleFault {
  const char* id;
  const char* words;
  Call call;
  void (*rule)(Token& t);
};

/// Scores of which many are alike.
Call of_ties() {
  return edited(route(16, {}), "logits", [](float v, Index) { return std::round(v); });
}

/// Five experts of eight with choices below -1.
Call of_low_choices() {
  return edited(route(8, {}, true), "bias",
                [](float, Index e) { return e < 3 ? 1.0f : -1.3f - 0.2f * static_cast<float>(e); });
}

/// Scores of which many are alike in bf16.
Call close(const Settings& set) {
  return edited(route(32, set), "logits", [](float v, Index) { return 0.02f * v; });
}

const RuleFault kRules[] = {
    {"groups=best", "its largest choice rather than its two largest", route(32, kGroups),
     [](Token& t) { limit_groups(t, eights, [](const auto& m) { return m[0]; }); }},
    {"groups=two_best", "two largest choices rather than its largest", route(32, kBest),
     [](Token& t) { limit_groups(t, eights, two_best); }},
    {"groups=sum", "the sum of all its choices", route(32, kGroups, true),
     [](Token& t) { limit_groups(t, eights, sum_of); }},
    {"groups=padded", "groups score 0 for negative choices",
     edited(route(32, kGroups, true), "bias", [](float v, Index) { return v - 0.8f; }),
     [](Token& t) {
       limit_groups(t, eights,
                    [](const auto& m) { return std::max(m[0], 0.0f) + std::max(m[1], 0.0f); });
     }},
    {"groups=strided", "group e modulo 4", route(32, kGroups),
     [](Token& t) { limit_groups(t, strided, two_best); }},
    {"top_k=never", "expert 6 is never chosen", route(16, {}),
     [](Token& t) { std::erase(t.slots, 6); }},
    {"top_k=never", "experts from 32 on are never chosen", route(40, {}),
     [](Token& t) { std::erase_if(t.slots, [](Index e) { return e >= 32; }); }},
    {"top_k=never", "experts below 8 are never chosen", route(40, {}),
     [](Token& t) { std::erase_if(t.slots, [](Index e) { return e < 8; }); }},
    {"top_k=never", "experts 4 to 7 are never chosen", route(16, {}),
     [](Token& t) { std::erase_if(t.slots, [](Index e) { return e / 4 == 1; }); }},
    {"top_k=never", "experts whose number is not 1 modulo 2 are never chosen", route(16, {}),
     [](Token& t) { std::erase_if(t.slots, [](Index e) { return e % 2 == 0; }); }},
    {"top_k=next", "takes choice 5 rather than choice 4", route(16, {}),
     [](Token& t) { t.slots.erase(t.slots.begin() + 3); }},
    {"top_k=skips", "choices begin with the second", route(16, {}),
     [](Token& t) { t.slots.erase(t.slots.begin()); }},
    {"top_k=by_index", "in the order of experts rather than of their scores", route(16, {}),
     [](Token& t) { std::sort(t.slots.begin(), t.slots.begin() + 4); }},
    {"top_k=least_minus_1", "their slots take expert 0", of_low_choices(),
     [](Token& t) {
       for (Index& e : t.slots) e = t.choice[static_cast<std::size_t>(e)] < -1 ? 0 : e;
     }},
    {"score=bf16", "scores are rounded to bf16", route(16, {}, true),
     [](Token& t) {
       for (std::size_t e = 0; e < 16; ++e) {
         t.choice[e] += narrow(t.score[e]) - t.score[e];
         t.score[e] = narrow(t.score[e]);
       }
     }},
    {"ties=higher", "ties go to the higher expert", of_ties(),
     [](Token& t) {
       t.slots = best_of({t.choice.rbegin(), t.choice.rend()});
       for (Index& e : t.slots) e = 15 - e;
     }},
    {"bias=in_weights", "the bias is added to the weights, too", route(16, {}, true),
     [](Token& t) { t.score = t.choice; }},
    {"choices=bf16", "choices are rounded to bf16, and weights are not", close({}),
     [](Token& t) {
       for (float& c : t.choice) c = narrow(c);
       t.slots = best_of(t.choice);
     }},
    {"groups=bf16", "scores of groups are rounded to bf16", close(kGroups),
     [](Token& t) { limit_groups(t, eights, [](const auto& m) { return narrow(m[0] + m[1]); }); }},
    {"choices=bf16", "choices and scores of groups are rounded to bf16", close(kGroups),
     [](Token& t) {
       for (float& c : t.choice) c = narrow(c);
       t.slots = best_of(t.choice);
       limit_groups(t, eights, [](const auto& m) { return narrow(m[0] + m[1]); });
     }},
    {"groups=ties_once", "of equal choices of a group one counts among its two best",
     edited(route(32, kGroups), "logits", [](float v, Index) { return std::round(v); }),
     [](Token& t) {
       limit_groups(t, eights, [](const auto& m) {
         const auto second = std::find_if(m.begin(), m.end(), [&](float c) { return c != m[0]; });
         return m[0] + (second == m.end() ? -1e10f : *second);
       });
     }},
};

TEST(PlantedRules, AreNamed) {
  for (const RuleFault& row : kRules)
    expect_named(
        {row.words, row.id, row.words, [&](Backend& b) { return chosen(b, row.call, row.rule); }});
}

/// An operand of which element i is of(all of it, i).
struct OperandFault {
  const char* id;
  const char* words;
  const char* operand;
  float (*of)(const float* given, Index i);
};

const OperandFault kOperands[] = {
    {"bias=left_out", "the bias is left out", "bias", [](const float*, Index) { return 0.0f; }},
    {"bias=negative", "subtracted rather than added", "bias",
     [](const float* b, Index e) { return -b[e]; }},
    {"bias=twice", "the bias is added twice", "bias",
     [](const float* b, Index e) { return 2 * b[e]; }},
    {"bias=other_expert", "of the expert after", "bias",
     [](const float* b, Index e) { return b[(e + 1) % 16]; }},
    {"bias=other_expert", "of the expert before", "bias",
     [](const float* b, Index e) { return b[(e + 15) % 16]; }},
    {"bias=as_bf16", "read as bf16", "bias",
     [](const float* b, Index e) {
       const auto bits = std::bit_cast<std::uint32_t>(b[e / 2]);
       return std::bit_cast<float>(e % 2 == 0 ? bits << 16 : bits & 0xFFFF0000u);
     }},
    {"logits=bf16", "logits are rounded to bf16 first", "logits",
     [](const float* x, Index i) { return narrow(x[i]); }},
    {"logits=f16", "logits are rounded to f16 first", "logits",
     [](const float* x, Index i) { return decode(encode<kF16>(x[i], Overflow::nonfinite)); }},
};

Planted before(Backend& b, const OperandFault& row) {
  return altered_as<float>(b, route(16, {}, true), {row.operand},
                           [&](Index i, const float* given) { return row.of(given, i); });
}

TEST(PlantedBeforeRouters, AreNamed) {
  for (const OperandFault& row : kOperands)
    expect_named({row.words, row.id, row.words, [&](Backend& b) { return before(b, row); }});
}

// A bias of other experts does to some tokens what a rule does that is not to blame.
TEST(PlantedBeforeRouters, BlameNoRuleForOtherExperts) {
  const auto of = [](const float* b, Index e) { return b[(e * 7 + 3) % 16]; };
  const Explanation e = explained(before(*make_cpu_backend(), {nullptr, "", "bias", of}));
  EXPECT_TRUE(e.causes.empty()) << e.sentence();
}

/// A parameter at another value.
struct SettingFault {
  const char* id;
  const char* words;
  Settings set;
  const char* key;
  const char* value;
};

const SettingFault kSettings[] = {
    {"groups=unlimited", "experts are chosen from all groups", kGroups, "limited_groups", "4"},
    {"groups=another_limit", "from 3 groups rather than 4", kHalf, "limited_groups", "3"},
    {"scale=left_out", "the factor of the weights is left out", kScaled, "scale", "1"},
    {"scale=twice", "the factor of the weights is applied twice", kScaled, "scale", "2.25"},
    {"normalize=false", "normalize is false rather than true", {}, "normalize", "false"},
    {"score=softmax", "score is softmax", {}, "score", "softmax"},
};

TEST(PlantedInRouterSettings, AreNamed) {
  for (const SettingFault& row : kSettings)
    expect_named({row.words, row.id, row.words, [&](Backend& b) {
                    return with_setting(b, route(32, row.set), row.key, row.value);
                  }});
}

/// Weights of a call whose scores of every second token are tiny, made anew from their sum.
Planted divided(Backend& b, float (*divide)(float weight, float sum)) {
  const Call call = edited(route(16, {}), "logits",
                           [](float v, Index i) { return i / 16 % 2 == 0 ? v - 48.0f : v; });
  Call whole = call;
  whole.set.set("normalize", "false");
  const NamedTensors scores = run_call(b, whole);
  return spoiled(b, call, [&](NamedTensors& out) {
    const auto* w = scores.at("weights").as<float>();
    for (Index i = 0; i < kTokens * 4; ++i) {
      const float* own = w + i / 4 * 4;
      out.at("weights").as<float>()[i] = divide(w[i], own[0] + own[1] + own[2] + own[3]);
    }
  });
}

const PlantedFault kOthers[] = {
    {"1e-20 is forgotten", "normalize=bare_sum", "1e-20 is not added to the sum of the weights",
     planted_by(divided, [](float w, float sum) { return w / sum; })},
    {"weights times a reciprocal", "normalize=reciprocal", "the rounded reciprocal of their sum",
     planted_by(divided, [](float w, float sum) { return w * (1.0f / (sum + 1e-20f)); })},
    {"slots by expert, weighed before", "top_k=by_index", "sorted after their weights were divided",
     spoils([](Backend&) { return route(16, {}); },
            [](NamedTensors& out) {
              auto* e = out.at("experts").as<std::int32_t>();
              auto* w = out.at("weights").as<float>();
              for (Index s = 0; s < kTokens * 4 * 4; ++s) {
                const Index i = s / 16 * 4 + s % 3;
                if (e[i] <= e[i + 1]) continue;
                std::swap(e[i], e[i + 1]);
                std::swap(w[i], w[i + 1]);
              }
            })},
    {"weights of experts by the number of the slot (transformers#43288)", "weights=by_slot",
     "slot s holds the weight of expert s",
     spoils([](Backend&) { return route(16, {}); },
            [](NamedTensors& out) {
              const Tensor given = out.at("weights");
              const auto* e = out.at("experts").as<std::int32_t>();
              for (Index i = 0; i < given.elements(); ++i) {
                const auto* own = std::find(e + i / 4 * 4, e + i / 4 * 4 + 4, i % 4);
                const bool any = own != e + i / 4 * 4 + 4;
                out.at("weights").as<float>()[i] = any ? given.as<float>()[own - e] : 0.0f;
              }
            })},
    {"weights hold the bias, in f64 (PaddleFormers#3452)", "bias=in_weights",
     "but for the last bits of weights",
     [](Backend& b) {
       const Call call = route(16, {}, true);
       return spoiled(b, call, [&](NamedTensors& out) {
         const auto weight = [&](Index i) {
           const Index e = out.at("experts").as<std::int32_t>()[i];
           const double logit = call.input("logits").as<float>()[i / 4 * 16 + e];
           const double bias = call.input("bias").as<float>()[e];
           return 1 / (1 + std::exp(-logit)) + bias;
         };
         for (Index i = 0; i < kTokens * 4; ++i) {
           double sum = 0;
           for (Index s = i / 4 * 4; s < i / 4 * 4 + 4; ++s) sum += weight(s);
           out.at("weights").as<float>()[i] = static_cast<float>(weight(i) / sum);
         }
       });
     }},
    {"two logits as one (flashinfer#2889)", "logits=as_f32", "bf16 logits are read as f32",
     alters([](Backend&) { return route(16, {}, true, Dtype::bf16); }, {"logits"},
            [](Tensor& t, const Tensor& given) {
              t = Tensor(Dtype::f32, given.shape());
              std::memcpy(t.data(), given.data(), given.bytes());
            })},
    {"the bias is added before softmax and after it (aiter#4247)", "bias=in_logits",
     "to the logits, and to their scores again",
     alters([](Backend&) { return route(16, kSoftmax, true); }, {"logits"},
            [](Tensor& t, const Tensor&) {
              const Tensor bias = route(16, {}, true).input("bias");
              for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] += bias.as<float>()[i % 16];
            })},
};

TEST(PlantedInRouters, AreNamed) { expect_named(kOthers); }

/// Without an expert that is never chosen anyway all is as the operator has it, whatever it takes.
TEST(RightRouters, AreThatOfTheOperator) {
  const auto backend = make_cpu_backend();
  const Settings all[] = {{},
                          "score=softmax scale=2.5",
                          "normalize=false",
                          "score=softmax_of_chosen scale=0.5",
                          "groups=4 limited_groups=2",
                          "groups=8 limited_groups=4 group_score=best",
                          "groups=4 limited_groups=2 other_groups=zero"};
  for (const Settings& set : all) {
    for (const bool biased : {false, true}) {
      Call call = edited(route(16, set, biased, Dtype::bf16), "logits", [](float v, Index i) {
        return i % 16 == 0 ? -99.0f : std::clamp(v, -3.0f, 3.0f);
      });
      if (biased) {
        call = edited(call, "bias", [](float v, Index e) { return e == 0 ? 0.0f : std::fabs(v); });
      }
      std::vector<Hypothesis> list;
      add_route_hypotheses(call, list);
      const auto never = std::ranges::find(list, "top_k=never", &Hypothesis::name);
      const NamedTensors made = never->run(*backend, call);
      for (const auto& [name, tensor] : run_call(*backend, call))
        EXPECT_EQ(std::memcmp(made.at(name).data(), tensor.data(), tensor.bytes()), 0)
            << name << " with setting " << &set - all;
    }
  }
}

}  // namespace
}  // namespace mxo::routers_test
