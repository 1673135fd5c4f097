// Routers that score, choose or weigh in another way, as a table: each token's slots by the rule.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "golden/explain/hypotheses.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

constexpr Index kTokens = 96;
using Settings = std::initializer_list<std::pair<const char*, std::string>>;

Call route(Index experts, Settings more, bool biased = false, Dtype dtype = Dtype::f32) {
  NamedTensors in;
  in.emplace("logits", dtype == Dtype::f32 ? random_floats({kTokens, experts}, 7)
                                           : random_bf16({kTokens, experts}, 7));
  if (biased) {
    Tensor bias = random_floats({experts}, 3);
    for (Index e = 0; e < experts; ++e) bias.as<float>()[e] *= 0.1f;
    in.emplace("bias", std::move(bias));
  }
  Parameters set = with({{"top_k", "4"}, {"score", "sigmoid"}});
  for (const auto& [key, value] : more) set.set(key, value);
  return make_call("route", in, set);
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

const Settings kGroups = {{"groups", "4"}, {"limited_groups", "2"}};
float two_best(const std::vector<float>& m) { return m[0] + m[1]; }
Index eights(Index e) { return e / 8; }

/// Another bias: expert e has of(bias, e).
Planted biased_by(Backend& b, float (*of)(const float* bias, Index e)) {
  return altered(b, route(16, {}, true), {"bias"}, [of](Tensor& t, const Tensor& given) {
    for (Index e = 0; e < 16; ++e) t.as<float>()[e] = of(given.as<float>(), e);
  });
}

Planted limited(Backend& b, const char* to) {
  return with_setting(b, route(32, {{"groups", "8"}, {"limited_groups", "4"}}), "limited_groups",
                      to);
}

/// `value` of every weight.
Planted weights_by(Backend& b, const Call& call, float (*value)(float)) {
  return spoiled(b, call, [&](NamedTensors& out) {
    float* w = out.at("weights").as<float>();
    for (Index i = 0; i < out.at("weights").elements(); ++i) w[i] = value(w[i]);
  });
}

Planted without(Backend& b, Index expert) {
  return chosen(b, route(16, {}), [=](Token& t) { std::erase(t.slots, expert); });
}

float narrow(float v) { return decode(encode<kBF16>(v)); }

const PlantedFault kFaults[] = {
    {"the best of a group", "groups=best", "its largest choice rather than its two largest",
     [](Backend& b) {
       return chosen(b, route(32, kGroups),
                     [](Token& t) { limit_groups(t, eights, [](const auto& m) { return m[0]; }); });
     }},
    {"the two best of a group", "groups=two_best", "two largest choices rather than its largest",
     [](Backend& b) {
       const Call call =
           route(32, {{"groups", "4"}, {"limited_groups", "2"}, {"group_score", "best"}});
       return chosen(b, call, [](Token& t) { limit_groups(t, eights, two_best); });
     }},
    {"all of a group", "groups=sum", "the sum of all its choices",
     [](Backend& b) {
       return chosen(b, route(32, kGroups, true), [](Token& t) {
         limit_groups(t, eights,
                      [](const auto& m) { return std::accumulate(m.begin(), m.end(), 0.0f); });
       });
     }},
    {"strided groups", "groups=strided", "group e modulo 4",
     [](Backend& b) {
       return chosen(b, route(32, kGroups), [](Token& t) {
         limit_groups(
             t, [](Index e) { return e % 4; }, two_best);
       });
     }},
    {"all groups", "groups=unlimited", "experts are chosen from all groups",
     [](Backend& b) { return with_setting(b, route(32, kGroups), "limited_groups", "4"); }},
    {"one group too few", "groups=another_limit", "from 3 groups rather than 4",
     [](Backend& b) { return limited(b, "3"); }},
    {"one group too many", "groups=another_limit", "from 5 groups rather than 4",
     [](Backend& b) { return limited(b, "5"); }},
    {"the last expert never", "top_k=never", "expert 15 is never chosen",
     [](Backend& b) { return without(b, 15); }},
    {"the first expert never", "top_k=never", "expert 0 is never chosen",
     [](Backend& b) { return without(b, 0); }},
    {"the fifth choice", "top_k=next", "takes choice 5 rather than choice 4",
     [](Backend& b) {
       return chosen(b, route(16, {}), [](Token& t) { t.slots.erase(t.slots.begin() + 3); });
     }},
    {"not the first choice", "top_k=skips", "choices begin with the second",
     [](Backend& b) {
       return chosen(b, route(16, {}), [](Token& t) { t.slots.erase(t.slots.begin()); });
     }},
    {"slots by expert", "top_k=by_index", "in the order of experts rather than of their scores",
     [](Backend& b) {
       return chosen(b, route(16, {}),
                     [](Token& t) { std::sort(t.slots.begin(), t.slots.begin() + 4); });
     }},
    {"slots by expert, weighed before", "top_k=by_index", "sorted after their weights were divided",
     [](Backend& b) {
       return spoiled(b, route(16, {}), [](NamedTensors& out) {
         auto* e = out.at("experts").as<std::int32_t>();
         auto* w = out.at("weights").as<float>();
         for (Index s = 0; s < kTokens * 4 * 4; ++s) {
           const Index i = s / 16 * 4 + s % 3;
           if (e[i] <= e[i + 1]) continue;
           std::swap(e[i], e[i + 1]);
           std::swap(w[i], w[i + 1]);
         }
       });
     }},
    {"choices below -1", "top_k=least_minus_1", "their slots take expert 0",
     [](Backend& b) {
       Call call = route(8, {}, true);
       Tensor bias(Dtype::f32, {8});
       for (Index e = 0; e < 8; ++e)
         bias.as<float>()[e] = e < 3 ? 1.0f : -1.3f - 0.2f * static_cast<float>(e);
       call.replace("bias", std::move(bias));
       return chosen(b, call, [](Token& t) {
         for (Index& e : t.slots) e = t.choice[static_cast<std::size_t>(e)] < -1 ? 0 : e;
       });
     }},
    {"scores in bf16", "score=bf16", "scores are rounded to bf16",
     [](Backend& b) {
       return chosen(b, route(16, {}, true), [](Token& t) {
         for (std::size_t e = 0; e < 16; ++e) {
           t.choice[e] += narrow(t.score[e]) - t.score[e];
           t.score[e] = narrow(t.score[e]);
         }
       });
     }},
    {"ties to the higher", "ties=higher", "ties go to the higher expert",
     [](Backend& b) {
       Call call = route(16, {});
       Tensor coarse = call.input("logits");
       for (Index i = 0; i < coarse.elements(); ++i)
         coarse.as<float>()[i] = std::round(coarse.as<float>()[i]);
       call.replace("logits", std::move(coarse));
       return chosen(b, call, [](Token& t) {
         std::vector<float> backward(t.choice.rbegin(), t.choice.rend());
         t.slots = best_of(backward);
         for (Index& e : t.slots) e = 15 - e;
       });
     }},
    {"no bias", "bias=left_out", "the bias is left out",
     [](Backend& b) { return biased_by(b, [](const float*, Index) { return 0.0f; }); }},
    {"the bias in weights", "bias=in_weights", "the bias is added to the weights, too",
     [](Backend& b) {
       return chosen(b, route(16, {}, true), [](Token& t) { t.score = t.choice; });
     }},
    {"weights hold the bias, in f64 (PaddleFormers#3452)", "bias=in_weights",
     "but for the last bits of weights",
     [](Backend& b) {
       const Call call = route(16, {}, true);
       return spoiled(b, call, [&](NamedTensors& out) {
         const auto weight = [&](Index i) {
           const Index e = out.at("experts").as<std::int32_t>()[i];
           const double logit = call.input("logits").as<float>()[i / 4 * 16 + e];
           return 1 / (1 + std::exp(-logit)) +
                  static_cast<double>(call.input("bias").as<float>()[e]);
         };
         for (Index i = 0; i < kTokens * 4; ++i) {
           const Index first = i / 4 * 4;
           const double sum =
               weight(first) + weight(first + 1) + weight(first + 2) + weight(first + 3);
           out.at("weights").as<float>()[i] = static_cast<float>(weight(i) / sum);
         }
       });
     }},
    {"a negative bias", "bias=negative", "subtracted rather than added",
     [](Backend& b) { return biased_by(b, [](const float* bias, Index e) { return -bias[e]; }); }},
    {"the bias twice", "bias=twice", "the bias is added twice",
     [](Backend& b) {
       return biased_by(b, [](const float* bias, Index e) { return 2 * bias[e]; });
     }},
    {"the bias of the next expert", "bias=other_expert", "of the expert after",
     [](Backend& b) {
       return biased_by(b, [](const float* bias, Index e) { return bias[(e + 1) % 16]; });
     }},
    {"the bias of the last expert", "bias=other_expert", "of the expert before",
     [](Backend& b) {
       return biased_by(b, [](const float* bias, Index e) { return bias[(e + 15) % 16]; });
     }},
    {"two logits as one (flashinfer#2889)", "logits=as_f32", "two logits as one",
     [](Backend& b) {
       return altered(b, route(16, {}, true, Dtype::bf16), {"logits"},
                      [](Tensor& t, const Tensor& given) {
                        t = Tensor(Dtype::f32, given.shape());
                        std::memcpy(t.data(), given.data(), given.bytes());
                      });
     }},
    {"logits in bf16", "logits=bf16", "logits are rounded to bf16 first",
     [](Backend& b) {
       return altered(b, route(16, {}), {"logits"}, [](Tensor& t, const Tensor&) {
         for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = narrow(t.as<float>()[i]);
       });
     }},
    {"weights in bf16", "value.rounded", "weights: values are rounded to 7 fraction",
     [](Backend& b) { return weights_by(b, route(16, {}), narrow); }},
    {"no factor", "scale=left_out", "the factor of the weights is left out",
     [](Backend& b) {
       return with_setting(b, route(16, {{"scale", "2.3"}}), "scale", "1");
     }},
    {"the factor twice", "scale=twice", "the factor of the weights is applied twice",
     [](Backend& b) {
       return with_setting(b, route(16, {{"scale", "1.5"}}), "scale", "2.25");
     }},
    {"weights are not divided", "normalize=false", "normalize is false rather than true",
     [](Backend& b) { return with_setting(b, route(16, {}), "normalize", "false"); }},
    {"another score", "score=softmax", "score is softmax",
     [](Backend& b) { return with_setting(b, route(16, {}), "score", "softmax"); }},
};

class PlantedInRouters : public testing::TestWithParam<PlantedFault> {};
INSTANTIATE_TEST_SUITE_P(All, PlantedInRouters, testing::ValuesIn(kFaults));
TEST_P(PlantedInRouters, AreNamed) { expect_named(GetParam()); }

/// A bias of other experts, which does to some tokens what a rule does that is not to blame.
TEST(PlantedInNoRouter, TokensHereAndThereNameNoRule) {
  const auto backend = make_cpu_backend();
  const Planted p =
      biased_by(*backend, [](const float* bias, Index e) { return bias[(e * 7 + 3) % 16]; });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_TRUE(e.causes.empty()) << e.sentence();
}

/// Without an expert that is never chosen anyway all is as the operator has it, whatever it takes.
TEST(RightRouters, AreThatOfTheOperator) {
  const auto backend = make_cpu_backend();
  const Settings all[] = {{},
                          {{"score", "softmax"}, {"scale", "2.5"}},
                          {{"normalize", "false"}},
                          {{"score", "softmax_of_chosen"}, {"scale", "0.5"}},
                          {{"groups", "4"}, {"limited_groups", "2"}},
                          {{"groups", "8"}, {"limited_groups", "4"}, {"group_score", "best"}},
                          {{"groups", "4"}, {"limited_groups", "2"}, {"other_groups", "zero"}}};
  for (const Settings& set : all) {
    for (const bool biased : {false, true}) {
      Call call = route(16, set, biased, Dtype::bf16);
      Tensor logits = call.input("logits");
      for (Index i = 0; i < logits.elements(); ++i) {
        const float v = std::clamp(decode(logits.as<BF16>()[i]), -3.0f, 3.0f);
        logits.as<BF16>()[i] = encode<kBF16>(i % 16 == 0 ? -99.0f : v);
      }
      call.replace("logits", std::move(logits));
      if (biased) {
        Tensor bias = call.input("bias");
        for (Index e = 0; e < 16; ++e) bias.as<float>()[e] = std::fabs(bias.as<float>()[e]);
        bias.as<float>()[0] = 0;
        call.replace("bias", std::move(bias));
      }
      std::vector<Hypothesis> list;
      add_route_hypotheses(call, list);
      const auto never = std::find_if(list.begin(), list.end(),
                                      [](const Hypothesis& h) { return h.name == "top_k=never"; });
      const NamedTensors made = never->run(*backend, call);
      for (const auto& [name, tensor] : run_call(*backend, call)) {
        EXPECT_EQ(std::memcmp(made.at(name).data(), tensor.data(), tensor.bytes()), 0)
            << name << " with setting " << &set - all;
      }
    }
  }
}

}  // namespace
}  // namespace mxo
