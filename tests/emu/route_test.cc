// Routers against independent statements of their rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/support/by_mpfr.h"
#include "tests/support/named_calls.h"

namespace mxo::test {
namespace {

TEST(Route, OrdersByScoreWithTiesToTheLowerExpertAndNanLast) {
  Tensor logits(Dtype::f32, {2, 5});
  const float kLogits[] = {1.0f, 3.0f, 3.0f, -2.0f, 2.0f, 0.0f, NAN, 0.5f, 0.5f, -1.0f};
  std::memcpy(logits.data(), kLogits, sizeof kLogits);
  NamedTensors in;
  in.emplace("logits", logits);
  const NamedTensors out = call("reference", "route", in,
                                {{"top_k", "5"}, {"score", "sigmoid"}, {"normalize", "false"}});
  const std::int32_t want[] = {1, 2, 4, 0, 3, 2, 3, 0, 4, 1};
  EXPECT_EQ(std::memcmp(out.at("experts").data(), want, sizeof want), 0);
  EXPECT_EQ(out.at("weights").as<float>()[0], sigma_by_mpfr(3.0f));
  EXPECT_TRUE(std::isnan(out.at("weights").as<float>()[9]));
  EXPECT_EQ(out.at("tokens_per_expert").as<std::int32_t>()[1], 2);
}

TEST(Route, KeepsOnlyTheBestRunsOfExpertsAndWeighsWithoutTheBias) {
  Tensor logits(Dtype::f32, {1, 8});
  const float kLogits[] = {0.9f, 0.1f, 0.2f, 0.3f, 0.6f, 0.6f, 0.5f, -3.0f};
  std::memcpy(logits.data(), kLogits, sizeof kLogits);
  Tensor bias(Dtype::f32, {8});
  bias.as<float>()[3] = 0.4f;
  NamedTensors in;
  in.emplace("logits", logits);
  in.emplace("bias", bias);
  // Runs {0,1} {2,3} {4,5} {6,7}: the two best by the sum of choices are {2,3} and {4,5}.
  const NamedTensors out = call("reference", "route", in,
                                {{"top_k", "3"},
                                 {"score", "sigmoid"},
                                 {"groups", "4"},
                                 {"limited_groups", "2"},
                                 {"scale", "2.5"}});
  const std::int32_t want[] = {3, 4, 5};
  EXPECT_EQ(std::memcmp(out.at("experts").data(), want, sizeof want), 0);
  const float s[] = {sigma_by_mpfr(0.3f), sigma_by_mpfr(0.6f), sigma_by_mpfr(0.6f)};
  const float sum = s[0] + s[1] + s[2];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(out.at("weights").as<float>()[i], s[i] / (sum + 1e-20f) * 2.5f);
  }
}

/// MoEGate of DeepSeek-V3 as transformers has it, in double where order decides: scores of groups
/// by their two best or their best, the others masked with 0 or -infinity, weights of the scores.
std::vector<std::int32_t> experts_by_masks(const std::vector<float>& score,
                                           const std::vector<float>& bias, int groups, int stay,
                                           int k, bool best, float masked) {
  const std::size_t run = score.size() / static_cast<std::size_t>(groups);
  std::vector<float> choice(score.size());
  for (std::size_t e = 0; e < score.size(); ++e) choice[e] = score[e] + bias[e];
  std::vector<std::pair<float, int>> order;
  for (int g = 0; g < groups; ++g) {
    std::vector<float> of(choice.begin() + g * static_cast<std::ptrdiff_t>(run),
                          choice.begin() + (g + 1) * static_cast<std::ptrdiff_t>(run));
    std::sort(of.rbegin(), of.rend());
    order.emplace_back(best ? of[0] : of[0] + of[1], -g);
  }
  std::sort(order.rbegin(), order.rend());
  for (int i = stay; i < groups; ++i) {
    const auto g = static_cast<std::size_t>(-order[static_cast<std::size_t>(i)].second);
    for (std::size_t e = g * run; e < (g + 1) * run; ++e) choice[e] = masked;
  }
  std::vector<std::pair<float, int>> all;
  for (std::size_t e = 0; e < choice.size(); ++e) all.emplace_back(choice[e], -static_cast<int>(e));
  std::sort(all.rbegin(), all.rend());
  std::vector<std::int32_t> experts;
  for (int i = 0; i < k; ++i) experts.push_back(-all[static_cast<std::size_t>(i)].second);
  return experts;
}

TEST(Route, AGroupOfOneExpertScoresAsItDoes) {
  Tensor logits(Dtype::f32, {1, 4});
  const float kLogits[] = {3.0f, 1.0f, 2.0f, 0.0f};
  std::memcpy(logits.data(), kLogits, sizeof kLogits);
  for (const char* backend : {"reference", "cpu"}) {
    const NamedTensors out = call(backend, "route", {{"logits", logits}},
                                  {{"top_k", "2"}, {"groups", "4"}, {"limited_groups", "2"}});
    EXPECT_EQ(out.at("experts").as<std::int32_t>()[0], 0);
    EXPECT_EQ(out.at("experts").as<std::int32_t>()[1], 2);
  }
}

TEST(Route, GroupsOfDeepSeekAreScoredAndMaskedAsItsModelsDo) {
  const Index tokens = 200;
  const Index experts = 32;
  NamedTensors in;
  in.emplace("logits", normal_floats({tokens, experts}, 21, 2.0f));
  in.emplace("bias", normal_floats({experts}, 22, 1.0f));  // choices may be negative
  std::vector<float> bias(in.at("bias").as<float>(), in.at("bias").as<float>() + experts);
  for (const bool best : {false, true}) {
    for (const bool zero : {false, true}) {
      const NamedTensors out = call("reference", "route", in,
                                    {{"top_k", "6"},
                                     {"score", "sigmoid"},
                                     {"groups", "8"},
                                     {"limited_groups", "3"},
                                     {"group_score", best ? "best" : "two_best"},
                                     {"other_groups", zero ? "zero" : "excluded"}});
      for (Index t = 0; t < tokens; ++t) {
        std::vector<float> score;
        for (Index e = 0; e < experts; ++e) {
          score.push_back(sigma_by_mpfr(in.at("logits").as<float>()[t * experts + e]));
        }
        const auto want = experts_by_masks(score, bias, 8, 3, 6, best, zero ? 0.0f : -INFINITY);
        const std::int32_t* got = out.at("experts").as<std::int32_t>() + t * 6;
        ASSERT_TRUE(std::equal(want.begin(), want.end(), got)) << t << best << zero;
      }
      EXPECT_TRUE(same_bytes(out, call("cpu", "route", in,
                                       {{"top_k", "6"},
                                        {"score", "sigmoid"},
                                        {"groups", "8"},
                                        {"limited_groups", "3"},
                                        {"group_score", best ? "best" : "two_best"},
                                        {"other_groups", zero ? "zero" : "excluded"}})));
    }
  }
}

TEST(Route, OfGptOssChoosesByLogitsAndWeighsTheChosen) {
  const Index tokens = 100;
  const Index experts = 32;
  const Index k = 4;
  NamedTensors in;
  in.emplace("logits", normal_floats({tokens, experts}, 31, 3.0f));
  for (const char* normalize : {"true", "false"}) {  // softmax has divided already
    for (const char* backend : {"reference", "cpu"}) {
      const NamedTensors out = call(backend, "route", in,
                                    {{"top_k", "4"},
                                     {"score", "softmax_of_chosen"},
                                     {"normalize", normalize},
                                     {"scale", "1.5"}});
      for (Index t = 0; t < tokens; ++t) {
        const float* logits = in.at("logits").as<float>() + t * experts;
        std::vector<std::pair<float, Index>> all;
        for (Index e = 0; e < experts; ++e) all.emplace_back(logits[e], e);
        std::sort(all.rbegin(), all.rend());
        float sum = 0.0f;
        for (Index i = 0; i < k; ++i) {
          sum += exp_by_mpfr(all[static_cast<std::size_t>(i)].first - all[0].first);
        }
        for (Index i = 0; i < k; ++i) {
          const auto& [logit, expert] = all[static_cast<std::size_t>(i)];
          ASSERT_EQ(out.at("experts").as<std::int32_t>()[t * k + i], expert) << t << " " << i;
          ASSERT_EQ(out.at("weights").as<float>()[t * k + i],
                    exp_by_mpfr(logit - all[0].first) / sum * 1.5f)
              << t << " " << i;
        }
      }
    }
  }
}

/// Of logits that softmax of all rounds to one score, the larger is chosen all the same.
TEST(Route, OfGptOssTellsLogitsApartWhoseScoresAreZero) {
  NamedTensors in;
  Tensor logits(Dtype::f32, {1, 4});
  const float values[] = {-200.0f, 0.0f, -300.0f, -150.0f};
  std::copy_n(values, 4, logits.as<float>());
  in.emplace("logits", logits);
  const auto second = [&](const char* score) {
    return call("cpu", "route", in, {{"top_k", "2"}, {"score", score}})
        .at("experts")
        .as<std::int32_t>()[1];
  };
  EXPECT_EQ(second("softmax"), 0);
  EXPECT_EQ(second("softmax_of_chosen"), 3);
}

TEST(Route, TheOnlyOneChosenWeighsOne) {
  for (const char* backend : {"reference", "cpu"}) {
    for (const char* score : {"softmax_of_chosen", "softmax", "sigmoid"}) {
      NamedTensors in;
      in.emplace("logits", normal_floats({7, 1}, 32, 3.0f));
      const NamedTensors out = call(backend, "route", in, {{"top_k", "1"}, {"score", score}});
      for (Index t = 0; t < 7; ++t) EXPECT_EQ(out.at("weights").as<float>()[t], 1.0f) << score;
    }
  }
}

/// sqrt(log1p(exp(x))), each step rounded to f32 from 200 bits; x itself above 20.
float root_of_softplus(float x) {
  const float softplus = x > 20.0f ? x : by_mpfr(exp_by_mpfr(x), mpfr_log1p);
  return by_mpfr(softplus, mpfr_sqrt);
}

TEST(Route, RootOfSoftplusIsRoundedAtEachStep) {
  Tensor logits = normal_floats({40, 16}, 31, 6.0f);
  const float kEdges[] = {20.0f, 0x1.400002p+4f, -0.0f, -104.0f, -87.5f, 88.0f, 3e38f, -INFINITY};
  std::memcpy(logits.data(), kEdges, sizeof kEdges);
  for (const char* backend : {"reference", "cpu"}) {
    const NamedTensors out =
        call(backend, "route", {{"logits", logits}},
             {{"top_k", "16"}, {"score", "sqrtsoftplus"}, {"normalize", "false"}});
    for (Index t = 0; t < 40; ++t) {
      for (Index j = 0; j < 16; ++j) {
        const Index e = out.at("experts").as<std::int32_t>()[t * 16 + j];
        EXPECT_EQ(out.at("weights").as<float>()[t * 16 + j],
                  root_of_softplus(logits.as<float>()[t * 16 + e]))
            << backend << " " << logits.as<float>()[t * 16 + e];
      }
    }
  }
}

TEST(Route, LogitsOf16BitsAreTheirValues) {
  const Tensor logits = normal_floats({50, 16}, 23, 2.0f);
  for (const char* type : {"bf16", "f16"}) {
    NamedTensors wide;
    NamedTensors narrow;
    narrow.emplace("logits", call("cpu", "cast", {{"x", logits}}, {{"out", type}}).at("y"));
    wide.emplace("logits",
                 call("cpu", "cast", {{"x", narrow.at("logits")}}, {{"out", "f32"}}).at("y"));
    for (const char* backend : {"cpu", "reference"}) {
      for (const char* score : {"softmax", "sigmoid", "softmax_of_chosen", "sqrtsoftplus"}) {
        EXPECT_TRUE(
            same_bytes(call(backend, "route", narrow, {{"top_k", "4"}, {"score", score}}),
                       call("reference", "route", wide, {{"top_k", "4"}, {"score", score}})))
            << type << backend << score;
      }
    }
  }
}

TEST(Route, GivesTheSameBytesFromOneThreadAndFromTwo) {
  NamedTensors in;
  in.emplace("logits", normal_floats({501, 64}, 9, 2.0f));
  in.emplace("bias", normal_floats({64}, 10, 0.1f));
  for (const char* score : {"softmax", "sigmoid", "softmax_of_chosen", "sqrtsoftplus"}) {
    EXPECT_TRUE(same_bytes(
        call("reference", "route", in,
             {{"top_k", "6"}, {"score", score}, {"groups", "8"}, {"limited_groups", "4"}}),
        call("cpu", "route", in,
             {{"top_k", "6"}, {"score", score}, {"groups", "8"}, {"limited_groups", "4"}})));
  }
}

}  // namespace
}  // namespace mxo::test
