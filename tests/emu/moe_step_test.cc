// Routing, SwiGLU and the scaling-aware transpose against independent statements of their rules.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "ops/catalogue.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu.h"

namespace mxo {
namespace {

NamedTensors call(const char* backend, const char* op, const NamedTensors& in,
                  std::initializer_list<std::pair<const char*, const char*>> settings) {
  Parameters set;
  for (const auto& [key, value] : settings) set.set(key, value);
  return call_operator(*make_backend(backend, 2), op, in, set);
}

Tensor random_floats(std::vector<Index> shape, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = normal(random);
  return t;
}

bool same_bytes(const NamedTensors& a, const NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.bytes()) == 0;
  });
}

/// sigma(a) to f32 through 200 bits.
float sigma_by_mpfr(float a) {
  mpfr_t t;
  mpfr_init2(t, 200);
  mpfr_set_flt(t, -a, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  mpfr_add_ui(t, t, 1, MPFR_RNDN);
  mpfr_ui_div(t, 1, t, MPFR_RNDN);
  const float value = mpfr_get_flt(t, MPFR_RNDN);
  mpfr_clear(t);
  return value;
}

TEST(Swiglu, IsTheNamedProductsOfTheCorrectlyRoundedSigma) {
  NamedTensors in;
  in.emplace("x", random_floats({37, 2 * 19}, 1, 4.0f));
  in.emplace("probs", random_floats({37}, 2, 1.0f));
  const NamedTensors out = call("reference", "swiglu", in, {});
  const float* x = in.at("x").as<float>();
  for (Index r = 0; r < 37; ++r) {
    for (Index f = 0; f < 19; ++f) {
      const float a = x[r * 38 + f];
      const float b = x[r * 38 + 19 + f];
      volatile float silu = a * sigma_by_mpfr(a);
      volatile float gated = silu * b;
      EXPECT_EQ(out.at("y").as<float>()[r * 19 + f], gated * in.at("probs").as<float>()[r]);
    }
  }
  EXPECT_TRUE(same_bytes(out, call("cpu", "swiglu", in, {})));
  EXPECT_TRUE(same_bytes(call("reference", "swiglu", in, {{"rounding", "bf16"}}),
                         call("cpu", "swiglu", in, {{"rounding", "bf16"}})));
}

/// swiglu of one element in double.
double swiglu_real(double a, double b, double p) { return a / (1.0 + std::exp(-a)) * b * p; }

TEST(SwigluBackward, AgreesWithFiniteDifferencesInDouble) {
  NamedTensors in;
  in.emplace("x", random_floats({11, 2 * 6}, 3, 2.0f));
  in.emplace("dy", random_floats({11, 6}, 4, 1.0f));
  in.emplace("probs", random_floats({11}, 5, 1.0f));
  const NamedTensors out = call("reference", "swiglu_backward", in, {});
  const double h = 1e-5;
  for (Index r = 0; r < 11; ++r) {
    const double p = in.at("probs").as<float>()[r];
    double dprob = 0.0;
    for (Index f = 0; f < 6; ++f) {
      const double a = in.at("x").as<float>()[r * 12 + f];
      const double b = in.at("x").as<float>()[r * 12 + 6 + f];
      const double d = in.at("dy").as<float>()[r * 6 + f];
      const double da = d * (swiglu_real(a + h, b, p) - swiglu_real(a - h, b, p)) / (2 * h);
      const double db = d * (swiglu_real(a, b + h, p) - swiglu_real(a, b - h, p)) / (2 * h);
      dprob += d * (swiglu_real(a, b, p + h) - swiglu_real(a, b, p - h)) / (2 * h);
      EXPECT_NEAR(out.at("dx").as<float>()[r * 12 + f], da, 1e-5 * (1 + std::fabs(da)));
      EXPECT_NEAR(out.at("dx").as<float>()[r * 12 + 6 + f], db, 1e-5 * (1 + std::fabs(db)));
    }
    EXPECT_NEAR(out.at("dprobs").as<float>()[r], dprob, 1e-5 * (1 + std::fabs(dprob)));
  }
  EXPECT_TRUE(same_bytes(out, call("cpu", "swiglu_backward", in, {})));
}

TEST(ScalingAwareTranspose, ShiftsEveryFiniteCodeByEveryAmountUnderEveryRule) {
  for (int bits = 0; bits < 256; ++bits) {
    const E4M3 code{static_cast<std::uint8_t>(bits)};
    if (is_nan(code)) continue;
    const double value = decode(code);
    const int exponent = bits >> 3 & 15;
    for (int shift = 0; shift <= 16; ++shift) {
      // round: the nearest multiple of the quantum of the result's binade, by nearbyint.
      const double real = std::ldexp(value, -shift);
      const int binade = real == 0.0 ? -6 : std::max(std::ilogb(real), -6);
      const double nearest = std::ldexp(std::nearbyint(std::ldexp(real, 3 - binade)), binade - 3);
      const E4M3 rounded = shifted_code(code, shift, Underflow::round);
      EXPECT_EQ(decode(rounded), nearest) << bits << " >> " << shift;
      EXPECT_EQ(rounded.bits >> 7, bits >> 7);
      // The released kernels: normal codes that stay normal are exact, the rest is fixed.
      const E4M3 kept = shifted_code(code, shift, Underflow::keep_mantissa);
      const E4M3 flushed = shifted_code(code, shift, Underflow::flush);
      if (exponent == 0) {
        EXPECT_EQ(kept.bits, 0);
        EXPECT_EQ(flushed.bits, 0);
      } else if (exponent - shift >= 1) {
        EXPECT_EQ(decode(kept), real);
        EXPECT_EQ(decode(flushed), real);
      } else {
        EXPECT_EQ(decode(kept), std::copysign((bits & 7) * 0x1p-9, value));
        EXPECT_EQ(flushed.bits, 0);
      }
    }
  }
}

TEST(ScalingAwareTranspose, TakesTheLargestScaleOfATileThatRestartsAtEachGroup) {
  const Index rows = 300;
  const Index columns = 200;
  std::mt19937 random(7);
  NamedTensors in;
  Tensor codes(Dtype::u8, {rows, columns});
  for (Index i = 0; i < codes.elements(); ++i) {
    codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(random() % 0x7F);
  }
  Tensor scales(Dtype::f32, {rows, 2});
  for (Index i = 0; i < scales.elements(); ++i) {
    scales.as<float>()[i] = std::ldexp(1.0f, static_cast<int>(random() % 12) - 20);
  }
  Tensor ends(Dtype::i32, {4});
  const std::int32_t kEnds[] = {130, 130, 131, 290};
  std::memcpy(ends.data(), kEnds, sizeof kEnds);
  in.emplace("codes", codes);
  in.emplace("scales", scales);
  in.emplace("group_ends", ends);
  const NamedTensors out = call("reference", "scaling_aware_transpose", in, {});
  ASSERT_EQ(out.at("scales").shape(), (std::vector<Index>{2 + 0 + 1 + 2, columns}));
  const Index first[] = {0, 128, 130, 131, 259, 290};
  for (Index tile = 0; tile < 5; ++tile) {
    for (Index k = 0; k < columns; ++k) {
      float top = 0.0f;
      for (Index r = first[tile]; r < first[tile + 1]; ++r) {
        top = std::max(top, scales.as<float>()[r * 2 + k / 128]);
      }
      EXPECT_EQ(out.at("scales").as<float>()[tile * columns + k], top);
      for (Index r = first[tile]; r < first[tile + 1]; ++r) {
        const int shift = std::ilogb(top) - std::ilogb(scales.as<float>()[r * 2 + k / 128]);
        const E4M3 code{codes.as<std::uint8_t>()[r * columns + k]};
        EXPECT_EQ(out.at("codes").as<std::uint8_t>()[k * rows + r],
                  shifted_code(code, shift, Underflow::round).bits);
      }
    }
  }
  EXPECT_TRUE(same_bytes(out, call("cpu", "scaling_aware_transpose", in, {})));
  in.at("scales").as<float>()[5] = 3.0f;
  EXPECT_THROW(call("reference", "scaling_aware_transpose", in, {}), Error);
}

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

TEST(Route, GroupsOfDeepSeekAreScoredAndMaskedAsItsModelsDo) {
  const Index tokens = 200;
  const Index experts = 32;
  NamedTensors in;
  in.emplace("logits", random_floats({tokens, experts}, 21, 2.0f));
  in.emplace("bias", random_floats({experts}, 22, 1.0f));  // choices may be negative
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

/// exp(a) to f32 through 200 bits.
float exp_by_mpfr(float a) {
  mpfr_t t;
  mpfr_init2(t, 200);
  mpfr_set_flt(t, a, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  const float value = mpfr_get_flt(t, MPFR_RNDN);
  mpfr_clear(t);
  return value;
}

TEST(Route, OfGptOssChoosesByLogitsAndWeighsTheChosen) {
  const Index tokens = 100;
  const Index experts = 32;
  const Index k = 4;
  NamedTensors in;
  in.emplace("logits", random_floats({tokens, experts}, 31, 3.0f));
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

TEST(Route, LogitsInBf16AreTheirValues) {
  NamedTensors wide;
  NamedTensors narrow;
  const Tensor logits = random_floats({50, 16}, 23, 2.0f);
  narrow.emplace("logits", call("cpu", "cast", {{"x", logits}}, {}).at("y"));
  wide.emplace("logits",
               call("cpu", "cast", {{"x", narrow.at("logits")}}, {{"out", "f32"}}).at("y"));
  for (const char* backend : {"cpu", "reference"}) {
    EXPECT_TRUE(same_bytes(call(backend, "route", narrow, {{"top_k", "4"}}),
                           call("reference", "route", wide, {{"top_k", "4"}})));
  }
}

TEST(Combine, InBf16RoundsEveryProductAndEverySum) {
  const Index tokens = 40;
  const Index width = 24;
  NamedTensors in;
  in.emplace(
      "rank0.y",
      call("cpu", "cast", {{"x", random_floats({tokens * 3, width}, 25, 2.0f)}}, {}).at("y"));
  in.emplace("rank0.weights", random_floats({tokens, 3}, 26, 1.0f));
  Tensor experts(Dtype::i32, {tokens, 3});
  for (Index i = 0; i < experts.elements(); ++i) {
    experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 3);
  }
  in.emplace("rank0.experts", experts);
  const auto combined = [&](const char* backend, const char* steps) {
    Parameters set;
    set.set("experts", "3");
    set.set("steps", steps);
    set.set("precision", "bf16");
    const auto world = make_world("in_process");
    return call_operator(*make_backend(backend, 2), "combine", in, set, world.get());
  };
  const NamedTensors out = combined("reference", "bf16");
  const auto bf16 = [](float v) { return decode(encode<kBF16>(v)); };
  // Expert by expert, token by token: the row of slot s of token t is s * tokens + t.
  for (Index t = 0; t < tokens; ++t) {
    for (Index d = 0; d < width; ++d) {
      float acc = 0.0f;
      for (Index s = 0; s < 3; ++s) {
        const float row = decode(in.at("rank0.y").as<BF16>()[(s * tokens + t) * width + d]);
        acc = bf16(acc + bf16(row * in.at("rank0.weights").as<float>()[t * 3 + s]));
      }
      ASSERT_EQ(decode(out.at("rank0.out").as<BF16>()[t * width + d]), acc) << t << " " << d;
    }
  }
  EXPECT_TRUE(same_bytes(out, combined("cpu", "bf16")));
  EXPECT_FALSE(same_bytes(out, combined("cpu", "f32")));
}

TEST(Route, GivesTheSameBytesFromOneThreadAndFromTwo) {
  NamedTensors in;
  in.emplace("logits", random_floats({501, 64}, 9, 2.0f));
  in.emplace("bias", random_floats({64}, 10, 0.1f));
  for (const char* score : {"softmax", "sigmoid", "softmax_of_chosen"}) {
    EXPECT_TRUE(same_bytes(
        call("reference", "route", in,
             {{"top_k", "6"}, {"score", score}, {"groups", "8"}, {"limited_groups", "4"}}),
        call("cpu", "route", in,
             {{"top_k", "6"}, {"score", score}, {"groups", "8"}, {"limited_groups", "4"}})));
  }
}

}  // namespace
}  // namespace mxo
