// Routers against independent statements of their rules.
#include <gtest/gtest.h>

#include "tests/support/by_mpfr.h"
#include "tests/support/named_calls.h"

namespace mxo::test::route_test {
namespace {

TEST(Route, OrdersByScoreWithTiesToTheLowerExpertAndNanLast) {
  Tensor logits(Dtype::f32, {2, 5});
  const float kLogits[] = {1.0f, 3.0f, 3.0f, -2.0f, 2.0f, 0.0f, NAN, 0.5f, 0.5f, -1.0f};
  std::memcpy(logits.data(), kLogits, sizeof kLogits);
  const NamedTensors out =
      call("reference", "route", {{"logits", logits}}, "top_k=5 score=sigmoid normalize=false");
  const std::int32_t want[] = {1, 2, 4, 0, 3, 2, 3, 0, 4, 1};
  EXPECT_EQ(std::memcmp(out.at("experts").data(), want, sizeof want), 0);
  EXPECT_EQ(out.at("weights").as<float>()[0], sigma_by_mpfr(3.0f));
  EXPECT_TRUE(std::isnan(out.at("weights").as<float>()[9]));
  EXPECT_EQ(out.at("tokens_per_expert").as<std::int32_t>()[1], 2);
  const NamedTensors one = call("reference", "route", {{"logits", logits}}, "top_k=1");
  EXPECT_EQ(one.at("weights").as<float>()[0], 1.0f);  // of the only one chosen
}

TEST(Route, GroupsAreScoredAndTheOthersMaskedAsAsked) {
  struct Row {
    const char* groups;
    std::int32_t first, second;
  };
  Tensor logits(Dtype::f32, {1, 4}), bias(Dtype::f32, {4});
  const float kLogits[] = {3.0f, -9.0f, 2.0f, 1.5f};
  std::copy_n(kLogits, 4, logits.as<float>());
  std::fill_n(bias.as<float>(), 4, -2.0f);  // choices are negative: a zero is more
  for (const char* backend : {"reference", "cpu"}) {
    for (const Row& row :
         {Row{"groups=2 limited_groups=1 group_score=two_best other_groups=excluded", 2, 3},
          Row{"groups=2 limited_groups=1 group_score=best other_groups=excluded", 0, 1},
          Row{"groups=2 limited_groups=1 group_score=two_best other_groups=zero", 0, 1},
          Row{"groups=2 limited_groups=1 group_score=best other_groups=zero", 2, 3},
          // A group of one expert scores as it does.
          Row{"groups=4 limited_groups=2 group_score=two_best other_groups=excluded", 0, 2}}) {
      const NamedTensors out = call(backend, "route", {{"logits", logits}, {"bias", bias}},
                                    std::string("top_k=2 score=sigmoid ") + row.groups);
      EXPECT_EQ(out.at("experts").as<std::int32_t>()[0], row.first) << row.groups;
      EXPECT_EQ(out.at("experts").as<std::int32_t>()[1], row.second) << row.groups;
    }
  }
}

TEST(Route, OfGptOssChoosesByLogitsAndWeighsTheChosen) {
  const Index tokens = 100;
  const Index experts = 32;
  const Index k = 4;
  // Softmax has divided already; of logits far apart it has zeros, and the larger is chosen.
  for (const auto& [normalize, spread] :
       {std::pair{"true", 3.0f}, {"false", 3.0f}, {"true", 200.0f}}) {
    const NamedTensors in{{"logits", normal_floats({tokens, experts}, 31, spread)}};
    for (const char* backend : {"reference", "cpu"}) {
      const NamedTensors out =
          call(backend, "route", in,
               std::string("top_k=4 score=softmax_of_chosen scale=1.5 normalize=") + normalize);
      for (Index t = 0; t < tokens; ++t) {
        const float* logits = in.at("logits").as<float>() + t * experts;
        std::vector<std::pair<float, Index>> all;
        for (Index e = 0; e < experts; ++e) all.emplace_back(logits[e], e);
        std::sort(all.rbegin(), all.rend());
        float sum = 0.0f;
        for (Index i = 0; i < k; ++i)
          sum += exp_by_mpfr(all[static_cast<std::size_t>(i)].first - all[0].first);
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
        call(backend, "route", {{"logits", logits}}, "top_k=16 score=sqrtsoftplus normalize=false");
    for (Index i = 0; i < 640; ++i) {
      const std::int32_t expert = out.at("experts").as<std::int32_t>()[i];
      const float logit = logits.as<float>()[i / 16 * 16 + expert];
      EXPECT_EQ(out.at("weights").as<float>()[i], root_of_softplus(logit)) << backend << logit;
    }
  }
}

TEST(Route, LogitsOf16BitsAreTheirValues) {
  const Tensor logits = normal_floats({50, 16}, 23, 2.0f);
  for (const char* type : {"bf16", "f16"}) {
    NamedTensors wide;
    NamedTensors narrow{
        {"logits", call("cpu", "cast", {{"x", logits}}, std::string("out=") + type).at("y")}};
    wide.emplace("logits", call("cpu", "cast", {{"x", narrow.at("logits")}}, "out=f32").at("y"));
    for (const char* backend : {"cpu", "reference"}) {
      for (const char* score : {"softmax", "sigmoid", "softmax_of_chosen", "sqrtsoftplus"}) {
        const std::string set = std::string("top_k=4 score=") + score;
        EXPECT_TRUE(
            same_bytes(call(backend, "route", narrow, set), call("reference", "route", wide, set)))
            << type << backend << score;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::route_test
