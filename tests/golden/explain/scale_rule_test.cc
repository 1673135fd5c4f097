// Rules of scales from amax and scales: what they are called, whose they are, what has no name.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo::scale_rule_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Amax of blocks, and the actual scales.
struct Scaled {
  Dtype type;
  std::vector<float> amax, scales;
  Dtype format = Dtype::e4m3;
  void add(float a, float scale) {
    amax.push_back(a);
    scales.push_back(scale);
  }
  std::optional<ScaleRuleFound> rule() const {
    Tensor t(type, {static_cast<Index>(scales.size())});
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (type == Dtype::f32) {
        t.as<float>()[i] = scales[i];
      } else {
        t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(scales[i]);
      }
    }
    return rule_of(amax, t, format);
  }
  std::string words() const {
    const auto found = rule();
    for (std::size_t i = 0; found && i < amax.size(); ++i) {
      const float stored = found->stored(amax[i]);
      if (std::isnan(stored)) continue;
      EXPECT_EQ(stored, type == Dtype::f32 ? scales[i] : std::exp2(scales[i] - 127.0f)) << amax[i];
    }
    return found ? found->words : "none";
  }
};

// ---- Bytes.

/// Three binades of significands, each with the exponent of amax and step(significand).
Scaled bytes(const std::function<int(double)>& step,
             const std::vector<double>& significands = {1.0, 1.25, 1.5, 1.75, 1.875}) {
  Scaled b{Dtype::e8m0, {}, {}};
  for (const int e : {-3, 0, 5})
    for (const double m : significands)
      b.add(static_cast<float>(std::ldexp(m, e)), static_cast<float>(127 + e + step(m)));
  return b;
}

const std::string k8 = "the scale is 2^(floor(log2 amax) - 8)";

TEST(ScaleBytes, ShowTheSignificandOfTheirStep) {
  const auto above = [](double t, int low) { return [=](double m) { return low + (m > t); }; };
  const auto from = [](double t, int low) { return [=](double m) { return low + (m >= t); }; };
  const auto always = [](int low) { return [=](double) { return low; }; };
  struct Row {
    std::function<int(double)> step;
    std::string words;
  };
  const Row rows[] = {
      {always(-8), k8 + ": FLOOR"},
      {always(0), "the scale is 2^(floor(log2 amax)): no emax is subtracted"},
      {always(2), "the scale is 2^(floor(log2 amax) + 2)"},
      {always(-7), "the scale is 2^(floor(log2 amax) - 7)"},
      {above(1.75, -8), k8 + ", twice that above 1.75: RCEIL"},
      {from(1.75, -8), k8 + ", twice that from 1.75 on, where RCEIL begins above it"},
      {from(1.75, -9), "the scale is 2^floor(log2(amax / 448))"},
      {above(1.75, -9),
       "the scale is 2^(floor(log2 amax) - 9), twice that from a significand between 1.75 and "
       "1.875 on"},
      {above(1.75, -7), "the scale is one step above RCEIL"},
      {from(1.75, -7),
       "the scale is 2^(floor(log2 amax) - 7), twice that from a significand between 1.5 and 1.75 "
       "on"},
      {from(1.25, -9), "the scale is 2^round(log2(amax / 448)): the nearest exponent"},
      {from(1.5, -8), k8 + ", twice that from a significand of 1.5 on: the nearest exponent"},
      {above(1.0, -8), k8 + ", twice that for every significand above 1: CEIL"},
      {above(1.0, -6),
       "the scale is 2^(floor(log2 amax) - 6), twice that from a significand between 1 and 1.25 "
       "on"},
      {[](double m) { return m > 1.6 ? -6 : -8; }, "none"},  // two steps
      {[](double m) { return m < 1.6 ? -7 : -8; }, "none"},  // a step down
  };
  for (const Row& row : rows) EXPECT_EQ(bytes(row.step).words(), row.words);
  EXPECT_EQ(bytes(always(-7), {1.25, 1.5, 1.75}).words(),
            "the scale is 2^(floor(log2 amax) - 7): CEIL, where no amax is a power of two");
  const std::string nearest = "the scale is the power of two nearest to amax / 448";
  EXPECT_EQ(bytes(from(1.3125, -9), {1.0, 1.25, 1.3125}).words(), nearest);
  EXPECT_EQ(
      bytes(from(1.3, -9), {1.0, 1.1875, 1.375}).words(),
      nearest + "; equivalently, the scale is 2^round(log2(amax / 448)): the nearest exponent");
  // A root of two in f32 is a little less.
  EXPECT_EQ(bytes(above(1.3, -8), {1.0, 1.25, static_cast<double>(std::sqrt(2.0f))}).words(),
            k8 + ", twice that from a significand of 1.414214 on: the nearest exponent");
}

// ---- Numbers.

/// 64 numbers that tell roundings apart.
std::vector<float> many(std::initializer_list<float> more = {}) {
  std::vector<float> list;
  std::uint32_t bits = 1;
  for (int i = 0; i < 64; ++i) {
    bits = bits * 1664525u + 1013904223u;
    list.push_back(bit_cast<float>((bits >> 9) | 0x3F800000u) * std::ldexp(1.0f, i % 9 - 4));
  }
  list.insert(list.end(), more);
  return list;
}

using Stored = std::function<float(float)>;
Scaled numbers(const Stored& stored, const std::vector<float>& amax = many()) {
  Scaled b{Dtype::f32, {}, {}};
  for (const float a : amax) b.add(a, stored(a));
  return b;
}

constexpr float kMax = 448.0f;
float of_f64(float a) { return static_cast<float>(448.0 / static_cast<double>(a)); }
Stored rounded(float (*how)(float)) {
  return [how](float a) { return std::exp2(how(std::log2(a / kMax))); };
}

TEST(ScaleNumbers, ShowTheirQuotientAndPower) {
  struct Row {
    Stored stored;
    const char* words;
  };
  const Row rows[] = {
      {[](float a) { return a / kMax; }, "amax / max"},
      {[](float a) { return a * (1.0f / kMax); }, "amax * fl(1 / max)"},
      {[](float a) { return 1.0f / of_f64(a); }, "1 / fl(max / amax) from f64"},
      {[](float a) { return 1.0f / (kMax * (1.0f / a)); }, "1 / fl(max * fl(1 / amax))"},
      {[](float a) { return kMax / a; }, "max / amax, the inverse"},
      {[](float a) { return kMax * (1.0f / a); }, "max * fl(1 / amax), the inverse"},
      {[](float a) { return a / 240.0f; }, "amax / max with max 240"},
      {[](float a) { return a / 440.0f; }, "amax / max with max 440"},
      {rounded([](float l) { return std::ceil(l); }), "amax / max, rounded up to a power of two"},
      {rounded([](float l) { return std::floor(l); }), "amax / max, truncated to a power of two"},
      {rounded([](float l) { return std::round(l); }),
       "amax / max, rounded to the nearest power of two"},
  };
  for (const Row& row : rows)
    EXPECT_EQ(numbers(row.stored).words(), std::string("the stored scale is ") + row.words);
  EXPECT_EQ(numbers([](float a) { return a / 449.5f; }).words(), "none");
}

TEST(ScaleNumbers, AreOfAmaxRaisedToItsFloor) {
  const auto floored = [](float floor, float max, float small) {
    return numbers([=](float a) { return std::max(a, floor) / max; }, many({small})).words();
  };
  const std::string s = "the stored scale is amax / max with ";
  EXPECT_EQ(floored(1e-12f, kMax, 0.0f), s + "amax at least 1e-12");
  EXPECT_EQ(floored(1e-10f, kMax, 1e-11f), s + "amax at least 1e-10");
  EXPECT_EQ(floored(1e-4f, kMax, 0.0f), s + "amax at least 0.0001");
  EXPECT_EQ(floored(1e-4f, 240.0f, 0.0f), s + "max 240 and amax at least 0.0001");
  const auto lifted = [](float floor) {
    return numbers([=](float a) { return std::max(a, floor) / kMax; }).words();
  };
  EXPECT_EQ(lifted(0.5f), s + "amax at least 0.5");
  for (const float few : {0.08f, 31.0f}) EXPECT_EQ(lifted(few), "none");  // raised, or are not
  // Scaled of zeros with a scale of their own: the rule says nothing of them.
  const Scaled one = numbers([](float a) { return a == 0 ? 1.0f : a / kMax; }, many({0.0f}));
  EXPECT_EQ(one.words(), "the stored scale is amax / max");
  EXPECT_TRUE(std::isnan(one.rule()->stored(0.0f)));
}

// ---- Stacks.

Stored by_rule(F32ScaleRule rule, PowerOfTwo power = PowerOfTwo::none) {
  rule.power_of_2 = power;
  return [rule](float a) { return f32_scale<kE4M3>(a, rule, largest_finite<float>()).stored; };
}
std::string stacks(const Stored& stored, const std::vector<float>& amax = many()) {
  const auto found = numbers(stored, amax).rule();
  return found ? found->stacks : "none";
}
const std::string kOr = ", which these blocks do not tell apart";

TEST(StackNames, AreThoseWhoseRuleStoresEveryScale) {
  EXPECT_EQ(stacks(by_rule(kTeBlockwise)), ": the rule of torchao or te or flow" + kOr);
  EXPECT_EQ(stacks(by_rule(kTeBlockwise), many({kNaN})),
            ": the rule of torchao or te or flow" + kOr)
      << "of NaN a rule says nothing";
  EXPECT_EQ(stacks([](float a) { return a / 240.0f; }), "");
  EXPECT_EQ(stacks(by_rule(kDeepGemm), many({1e-6f})),
            ": the rule of deepgemm or tilelang or deepep_torch" + kOr);
  EXPECT_EQ(stacks(by_rule(kVllmCudaGroup), many({1e-13f})), ": the rule of vllm or sglang" + kOr)
      << "vllm_cuda is not named beside vllm";
}

TEST(StackNames, RaiseScalesAsTheirRowsDo) {
  EXPECT_EQ(stacks(by_rule(kDeepGemm, PowerOfTwo::up_clamped), many({1e-6f})),
            ": the rule of deepgemm or deepep" + kOr);
  // A multiplier that is cut stores an inverse that is rounded up.
  EXPECT_EQ(
      stacks(by_rule(kTeBlockwise, PowerOfTwo::down)),
      ": the rule of torchao or te or flow or deepgemm or vllm or sglang or triton or deepep" +
          kOr);
  EXPECT_EQ(stacks(by_rule(kTeBlockwise, PowerOfTwo::up)),
            ": the rule of torchao or te or flow" + kOr);
}

TEST(StackNames, AreOfBytesWhereScaleModeHasNoChoice) {
  const auto of = [](const ScaleProfile& profile, ScaleMode mode, float odd = -1.0f) {
    Scaled b{Dtype::e8m0, {}, {}};
    for (const float a : many({0.0f, 1.75f, 448.0f, 1e-40f, 0x1p-126f, kNaN})) {
      const int byte = shared_scale<kE4M3>(a, mode, profile).bits;
      b.add(a, static_cast<float>(a == odd ? byte + 1 : byte));
    }
    const auto found = b.rule();
    return found ? found->stacks : "none";
  };
  EXPECT_EQ(of(kAiterTritonMx, ScaleMode::even), ": the rule of aiter_triton");
  EXPECT_EQ(of(kAiterTritonMx, ScaleMode::even, 0.0f), "") << "one block is enough";
  EXPECT_EQ(of(kFlashinferMx, ScaleMode::floor), ": the rule of flashinfer");
  EXPECT_EQ(of(kMlxMx, ScaleMode::rceil), ": the rule of mlx");
  EXPECT_EQ(of(kTransformerEngine, ScaleMode::rceil), "") << "scale_mode names it";
  EXPECT_EQ(of(kMicroxcaling, ScaleMode::floor), "") << "so does it here";
}

}  // namespace
}  // namespace mxo::scale_rule_test
