// Rules of scales from amax and scales: what they are called, and what has no name.
#include "golden/explain/find/quantiser/quantiser_call.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/scale_rules.h"

namespace mxo {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const std::vector<double> kSignificands{1.0, 1.25, 1.5, 1.75, 1.875};

template <typename T>
std::optional<ScaleRuleFound> rule_by(Dtype type, const std::vector<float>& amax,
                                      const std::vector<T>& v) {
  Tensor t(type, {static_cast<Index>(v.size())});
  std::copy(v.begin(), v.end(), t.as<T>());
  return rule_of(amax, t, Dtype::e4m3);
}

struct Bytes {
  std::vector<float> amax;
  std::vector<std::uint8_t> scales;
  std::optional<ScaleRuleFound> rule() const { return rule_by(Dtype::e8m0, amax, scales); }
  std::string words() const {
    const auto found = rule();
    return found ? found->words : "none";
  }
  void add(float a, int byte) {
    amax.push_back(a);
    scales.push_back(static_cast<std::uint8_t>(byte));
  }
};

/// Three binades of significands, each with the exponent of amax and step(significand).
template <typename Step>
Bytes bytes(const std::vector<double>& significands, const Step& step) {
  Bytes b;
  for (const int e : {-3, 0, 5}) {
    for (const double m : significands) {
      b.add(static_cast<float>(std::ldexp(m, e)), 127 + e + step(m));
    }
  }
  return b;
}

template <typename Step>
std::string words(const Step& step) {
  return bytes(kSignificands, step).words();
}

const std::string k8 = "the scale is 2^(floor(log2 amax) - 8)";

TEST(ScaleBytes, ShowAnExponentWithoutAStep) {
  EXPECT_EQ(words([](double) { return -8; }), k8 + ": FLOOR");
  EXPECT_EQ(words([](double) { return 0; }),
            "the scale is 2^(floor(log2 amax)): no emax is subtracted");
  EXPECT_EQ(words([](double) { return 2; }), "the scale is 2^(floor(log2 amax) + 2)");
  EXPECT_EQ(bytes({1.25, 1.5, 1.75}, [](double) { return -7; }).words(),
            "the scale is 2^(floor(log2 amax) - 7): CEIL, where no amax is a power of two");
  EXPECT_EQ(words([](double) { return -7; }), "the scale is 2^(floor(log2 amax) - 7)")
      << "CEIL keeps powers of two";
}

TEST(ScaleBytes, ShowTheSignificandOfTheStep) {
  const auto above = [](double t, int low) {
    return words([=](double m) { return m > t ? low + 1 : low; });
  };
  const auto from = [](double t, int low) {
    return words([=](double m) { return m >= t ? low + 1 : low; });
  };
  EXPECT_EQ(above(1.75, -8), k8 + ", twice that above 1.75: RCEIL");
  EXPECT_EQ(from(1.75, -8), k8 + ", twice that from 1.75 on, where RCEIL begins above it");
  EXPECT_EQ(from(1.75, -9), "the scale is 2^floor(log2(amax / 448))");
  EXPECT_EQ(above(1.75, -9),
            "the scale is 2^(floor(log2 amax) - 9), twice that from a significand between 1.75 "
            "and 1.875 on");
  EXPECT_EQ(above(1.75, -7), "the scale is one step above RCEIL");
  EXPECT_EQ(from(1.75, -7),
            "the scale is 2^(floor(log2 amax) - 7), twice that from a significand between 1.5 and "
            "1.75 on");
  EXPECT_EQ(from(1.25, -9), "the scale is 2^round(log2(amax / 448)): the nearest exponent");
  EXPECT_EQ(from(1.5, -8), k8 + ", twice that from a significand of 1.5 on: the nearest exponent");
  EXPECT_EQ(above(1.0, -8), k8 + ", twice that for every significand above 1: CEIL");
  EXPECT_EQ(above(1.0, -6),
            "the scale is 2^(floor(log2 amax) - 6), twice that from a significand between 1 and "
            "1.25 on");
  // Where no amax lies at the threshold itself, both sides of it are one rule.
  const auto sparse = [](int low) {
    return bytes({1.5, 1.875}, [=](double m) { return m > 1.6 ? low + 1 : low; });
  };
  Bytes few = sparse(-8);
  for (const int e : {7, 8}) few.add(static_cast<float>(std::ldexp(1.5, e)), 127 + e - 8);
  EXPECT_EQ(few.words(), k8 + ", twice that above 1.75: RCEIL");
}

TEST(ScaleBytes, HaveNoRuleWhereNoneGivesThem) {
  EXPECT_EQ(words([](double m) { return m > 1.6 ? -6 : -8; }), "none") << "two steps";
  EXPECT_EQ(words([](double m) { return m < 1.6 ? -7 : -8; }), "none") << "a step down";
  Bytes both = bytes(kSignificands, [](double m) { return m > 1.6 ? -7 : -8; });
  both.add(1.75f, 127 - 8);
  EXPECT_EQ(both.words(), "none") << "one significand with the step and without";
  Bytes seven;
  for (int e = 0; e < 7; ++e) seven.add(std::ldexp(1.5f, e), 127 + e - 8);
  EXPECT_EQ(seven.words(), "none") << "too few to tell";
  seven.add(3.0f, 127 + 1 - 8);
  EXPECT_EQ(seven.words(), k8 + ": FLOOR");
}

TEST(ScaleBytes, CountNoBlockThatCannotTell) {
  Bytes b = bytes(kSignificands, [](double) { return -8; });
  for (const float a : {0.0f, kNaN, 0x1.8p-127f}) b.add(a, 1);
  for (const int byte : {0, 254, 255}) b.add(1.0f, byte);
  EXPECT_EQ(b.words(), k8 + ": FLOOR");
  b.add(0x1p-126f, 1);  // the least amax that counts
  EXPECT_EQ(b.words(), "none");
  b = bytes(kSignificands, [](double) { return -8; });
  b.add(1.0f, 253);
  EXPECT_EQ(b.words(), "none");
  b = bytes(kSignificands, [](double) { return -8; });
  b.add(1.0f, 1);
  EXPECT_EQ(b.words(), "none");
}

TEST(ScaleBytes, LeaveStepsToBlocksThatTell) {
  Bytes b = bytes(kSignificands, [](double m) { return m > 1.75 ? -7 : -8; });
  const std::string rceil = b.words();
  for (const int byte : {0, 254, 255}) b.add(1.9f, byte);
  b.add(0x1.fp-127f, 1);
  EXPECT_EQ(b.words(), rceil);
  // The first block, and one of byte 1, tell what no other does.
  const auto with_a_half = [](double scale, int byte) {
    Bytes made;
    made.add(static_cast<float>(1.5 * scale), byte);
    const Bytes rest = bytes({1.0, 1.25, 1.75}, [](double m) { return m > 1.6 ? -5 : -6; });
    for (std::size_t i = 0; i < rest.amax.size(); ++i) made.add(rest.amax[i], rest.scales[i]);
    return made.words();
  };
  const std::string between =
      "the scale is 2^(floor(log2 amax) - 6), twice that from a "
      "significand between 1.5 and 1.75 on";
  EXPECT_EQ(with_a_half(1.0, 127 - 6), between);
  EXPECT_EQ(with_a_half(0x1p-120, 1), between);
}

TEST(ScaleBytes, MayStepAFloatBesideARoot) {
  const float root = static_cast<float>(std::sqrt(2.0));  // a little less
  EXPECT_EQ(
      bytes({1.0, 1.25, static_cast<double>(root)}, [](double m) { return m > 1.3 ? -7 : -8; })
          .words(),
      k8 + ", twice that from a significand of 1.414214 on: the nearest exponent");
}

TEST(ScaleBytes, AreGivenByTheRuleThatIsFound) {
  for (const double t : {1.75, 1.5, 3.0}) {
    const Bytes b = bytes(kSignificands, [t](double m) { return m >= t ? -7 : -8; });
    const auto found = b.rule();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->stacks, t == 1.75  ? ": the rule of aiter_triton"
                             : t == 3.0 ? ": the rule of microxcaling"
                                        : "")
        << t;
    for (std::size_t i = 0; i < b.amax.size(); ++i) {
      EXPECT_EQ(found->stored(b.amax[i]), std::ldexp(1.0f, b.scales[i] - 127)) << i;
    }
    EXPECT_TRUE(std::isnan(found->stored(0.0f)));
  }
}

/// 64 numbers that tell roundings apart.
std::vector<float> many() {
  std::vector<float> list;
  std::uint32_t bits = 1;
  for (int i = 0; i < 64; ++i) {
    bits = bits * 1664525u + 1013904223u;
    list.push_back(bit_cast<float>((bits >> 9) | 0x3F800000u) * std::ldexp(1.0f, i % 9 - 4));
  }
  return list;
}

template <typename Stored>
std::optional<ScaleRuleFound> found(const std::vector<float>& amax, const Stored& stored) {
  std::vector<float> scales;
  for (const float a : amax) scales.push_back(stored(a));
  return rule_by(Dtype::f32, amax, scales);
}

template <typename Stored>
std::string numbers(const Stored& stored) {
  const auto rule = found(many(), stored);
  if (!rule) return "none";
  for (const float a : many()) EXPECT_EQ(rule->stored(a), stored(a)) << rule->words;
  return rule->words;
}

constexpr float kMax = 448.0f;
float of_f64(float a) { return static_cast<float>(448.0 / static_cast<double>(a)); }

TEST(ScaleNumbers, ShowTheirQuotient) {
  const std::string s = "the stored scale is ";
  EXPECT_EQ(numbers([](float a) { return a / kMax; }), s + "amax / max");
  EXPECT_EQ(numbers([](float a) { return a * (1.0f / kMax); }), s + "amax * fl(1 / max)");
  EXPECT_EQ(numbers([](float a) { return 1.0f / of_f64(a); }), s + "1 / fl(max / amax) from f64");
  EXPECT_EQ(numbers([](float a) { return 1.0f / (kMax * (1.0f / a)); }),
            s + "1 / fl(max * fl(1 / amax))");
  EXPECT_EQ(numbers([](float a) { return kMax / a; }), s + "max / amax, the inverse");
  EXPECT_EQ(numbers([](float a) { return kMax * (1.0f / a); }),
            s + "max * fl(1 / amax), the inverse");
  EXPECT_EQ(numbers([](float a) { return a / 240.0f; }), s + "amax / max with max 240");
  EXPECT_EQ(numbers([](float a) { return a / 449.0f; }), "none");
}

TEST(ScaleNumbers, ShowTheirPowerOfTwo) {
  const auto of = [](auto exponent) {
    const auto stored = [=](float a) { return std::exp2(exponent(std::log2(a / kMax))); };
    std::vector<float> amax = many();
    amax.push_back(std::numeric_limits<float>::denorm_min());  // a scale of 0 stays
    EXPECT_TRUE(found(amax, stored));
    return numbers(stored);
  };
  const std::string s = "the stored scale is amax / max";
  EXPECT_EQ(of([](float l) { return std::ceil(l); }), s + ", rounded up to a power of two");
  EXPECT_EQ(of([](float l) { return std::floor(l); }), s + ", cut to a power of two");
  EXPECT_EQ(of([](float l) { return std::round(l); }), s + ", rounded to the nearest power of two");
}

TEST(ScaleNumbers, AreOfAmaxRaisedToItsFloor) {
  const std::pair<float, std::string> floors[] = {{1e-12f, "1e-12"}, {1e-10f, "1e-10"},
                                                  {1e-8f, "1e-8"},   {1e-6f, "1e-6"},
                                                  {1e-5f, "1e-5"},   {1e-4f, "1e-4"}};
  for (const auto& [floor, words] : floors) {
    for (const float small : {0.0f, floor / 3.0f}) {
      std::vector<float> amax = many();
      amax.push_back(small);
      const auto rule = found(amax, [f = floor](float a) { return std::max(a, f) / kMax; });
      ASSERT_TRUE(rule) << words;
      EXPECT_EQ(rule->words, "the stored scale is amax / max with amax at least " + words);
      EXPECT_EQ(rule->stored(0.0f), floor / kMax);
      EXPECT_EQ(rule->stored(1.0f), 1.0f / kMax);
    }
  }
  std::vector<float> amax = many();
  amax.push_back(0.0f);
  const auto up = [](float a) { return std::exp2(std::ceil(std::log2(std::max(a, 1e-4f) / 240))); };
  EXPECT_EQ(found(amax, up)->words,
            "the stored scale is amax / max with max 240 and amax at least 1e-4, rounded up to a "
            "power of two");
  // Blocks of zeros with a scale of their own: the rule says nothing of them.
  const auto one = found(amax, [](float a) { return a == 0.0f ? 1.0f : a / kMax; });
  EXPECT_EQ(one->words, "the stored scale is amax / max");
  EXPECT_TRUE(std::isnan(one->stored(0.0f)));
  EXPECT_EQ(one->stored(1e-5f), 1e-5f / kMax);
}

TEST(ScaleNumbers, HaveNoRuleWhereNoBlockTells) {
  const auto divided = [](float a) { return a / kMax; };
  EXPECT_FALSE(found({1, 3, 5}, divided));
  EXPECT_TRUE(found({1, 3, 5, 7}, divided));
  EXPECT_FALSE(found({1, 3, 5, 7}, [](float a) { return a == 1 ? 1.0f : a / kMax; }));
  EXPECT_FALSE(found({kNaN, kNaN, kNaN, kNaN}, [](float) { return 1.0f; }));
  EXPECT_FALSE(found({0, 0, 0, 0}, [](float) { return 1.0f; }));
  EXPECT_TRUE(found({0, 0, 0, 0}, [](float) { return 1e-12f / kMax; })) << "a floor";
}

TEST(ScaleNumbers, AreFoundByTheTypeOfTheScales) {
  Tensor e8m0(Dtype::e8m0, {8});
  Tensor f32(Dtype::f32, {8});
  std::vector<float> amax;
  for (int i = 0; i < 8; ++i) {
    amax.push_back(std::ldexp(1.5f, i));
    e8m0.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(127 + i - 8);
    f32.as<float>()[i] = amax.back() / kMax;
  }
  EXPECT_EQ(rule_of(amax, e8m0, Dtype::e4m3)->words, k8 + ": FLOOR");
  EXPECT_EQ(rule_of(amax, f32, Dtype::e4m3)->words, "the stored scale is amax / max");
}

TEST(ScaleNumbers, KnowTheLargestNumberOfAFormat) {
  EXPECT_EQ(largest(Dtype::e4m3), 448.0);
  EXPECT_EQ(largest(Dtype::e5m2), 57344.0);
  EXPECT_EQ(largest(Dtype::e4m3fnuz), 240.0);
}

}  // namespace
}  // namespace mxo
