// The f32 scale of a block from its amax, by every choice of a rule.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "formats/approximate.h"
#include "formats/scaled_block.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }

constexpr float kInputMax = 1000.0f;
F32Scale scale_of(float amax, const F32ScaleRule& rule) {
  return f32_scale<kE4M3>(amax, rule, kInputMax);
}

void expect(float amax, const F32ScaleRule& rule, float factor, float stored) {
  const F32Scale scale = scale_of(amax, rule);
  EXPECT_EQ(scale.factor, factor) << amax;
  EXPECT_EQ(scale.stored, stored) << amax;
}

/// A rule of one quotient and nothing else.
F32ScaleRule plain(Quotient quotient) {
  return {.quotient = quotient, .epsilon = 0.0, .floor = AmaxFloor::in_f32};
}
constexpr Quotient kMultipliers[] = {Quotient::max_over_amax_f64, Quotient::max_over_amax,
                                     Quotient::max_times_reciprocal};
constexpr Quotient kDivisors[] = {Quotient::amax_over_max, Quotient::amax_times_reciprocal};

TEST(F32Scale, QuotientsAreTakenAsNamed) {
  int differ_of_s = 0;
  int differ_of_d = 0;
  for (float amax = 1.0f; amax < 40.0f; amax += 0.37f) {
    const float quotient = 448.0f / amax;
    const float inverse = 1.0f / amax;
    expect(amax, plain(Quotient::max_over_amax_f64), quotient, 1.0f / quotient);
    expect(amax, plain(Quotient::max_over_amax), quotient, 1.0f / quotient);
    const float product = 448.0f * inverse;
    expect(amax, plain(Quotient::max_times_reciprocal), product, 1.0f / product);
    const float full = div_full(448.0f, amax);
    expect(amax, plain(Quotient::max_div_full_amax), full, div_full(1.0f, full));
    const float divisor = amax / 448.0f;
    expect(amax, plain(Quotient::amax_over_max), 1.0f / divisor, divisor);
    const float by_reciprocal = amax * (1.0f / 448.0f);
    expect(amax, plain(Quotient::amax_times_reciprocal), 1.0f / by_reciprocal, by_reciprocal);
    differ_of_s += quotient != product;
    differ_of_d += divisor != by_reciprocal;
  }
  EXPECT_GT(differ_of_s, 0);
  EXPECT_GT(differ_of_d, 0);
}

TEST(F32Scale, LargestValueIsTheFormatsOrTheRules) {
  F32ScaleRule rule = plain(Quotient::max_over_amax);
  EXPECT_EQ(f32_scale<kE4M3>(1.0f, rule, kInputMax).factor, 448.0f);
  EXPECT_EQ(f32_scale<kE5M2>(1.0f, rule, kInputMax).factor, 57344.0f);
  EXPECT_EQ(f32_scale<kE4M3Fnuz>(1.0f, rule, kInputMax).factor, 240.0f);
  rule.fnuz_max = 224;
  EXPECT_EQ(f32_scale<kE4M3>(1.0f, rule, kInputMax).factor, 448.0f);
  EXPECT_EQ(f32_scale<kE4M3Fnuz>(1.0f, rule, kInputMax).factor, 224.0f);
  EXPECT_EQ(f32_scale<kE5M2Fnuz>(1.0f, rule, kInputMax).factor, 57344.0f);
  rule.fnuz_max = 1;
  EXPECT_EQ(f32_scale<kE4M3Fnuz>(1.0f, rule, kInputMax).factor, 1.0f);
}

TEST(F32Scale, AmaxIsRaisedToEpsilon) {
  for (const Quotient quotient : kMultipliers) {
    F32ScaleRule rule = plain(quotient);
    rule.epsilon = 2.0;
    EXPECT_EQ(scale_of(0.0f, rule).factor, 224.0f);
    EXPECT_EQ(scale_of(1.0f, rule).factor, 224.0f);
    EXPECT_EQ(scale_of(4.0f, rule).factor, 112.0f);
  }
  for (const Quotient quotient : kDivisors) {
    F32ScaleRule rule = plain(quotient);
    rule.epsilon = 896.0;
    EXPECT_EQ(scale_of(1.0f, rule).stored, 2.0f);
  }
}

TEST(F32Scale, EpsilonKeepsItsBitsWhereAmaxIsWidened) {
  // 448 in f32, but 448 over it lies beyond the middle between 1 and the float below.
  F32ScaleRule rule{.epsilon = 448.0 * (1.0 + 0.55 * 0x1p-24)};
  EXPECT_EQ(scale_of(0.0f, rule).factor, 1.0f - 0x1p-24f);
  EXPECT_EQ(scale_of(447.0f, rule).factor, 1.0f - 0x1p-24f);
  EXPECT_EQ(scale_of(896.0f, rule).factor, 0.5f);
  rule.floor = AmaxFloor::in_f32;
  EXPECT_EQ(scale_of(0.0f, rule).factor, 1.0f);
  rule = {.epsilon = 0.0};
  EXPECT_EQ(scale_of(0.0f, rule).factor, INFINITY);
  EXPECT_EQ(F32ScaleRule{}.epsilon, 1e-12);
}

TEST(F32Scale, AmaxIsLoweredToItsBound) {
  for (const Quotient quotient : kMultipliers) {
    F32ScaleRule rule = plain(quotient);
    rule.amax_max = 7.0;
    EXPECT_EQ(scale_of(8.0f, rule).factor, 64.0f);
    EXPECT_EQ(scale_of(INFINITY, rule).factor, 64.0f);
    EXPECT_EQ(scale_of(3.5f, rule).factor, 128.0f);
    rule.amax_max = 0.5;
    EXPECT_EQ(scale_of(1.0f, rule).factor, 896.0f);
  }
  F32ScaleRule widened{.amax_max = 7.0};
  EXPECT_EQ(scale_of(8.0f, widened).factor, 64.0f);
  EXPECT_EQ(scale_of(3.5f, widened).factor, 128.0f);
  widened.amax_max = 0x1p-60;  // below epsilon, which counts first
  EXPECT_EQ(scale_of(0.0f, widened).factor, 0x1.cp68f);
}

TEST(F32Scale, ZerosAndInfinitiesHaveScaleOneWhereAsked) {
  for (const Quotient quotient : kMultipliers) {
    F32ScaleRule rule = plain(quotient);
    expect(0.0f, rule, INFINITY, 0.0f);
    expect(INFINITY, rule, 0.0f, INFINITY);
    rule.zero = SpecialAmax::one;
    expect(0.0f, rule, 1.0f, 1.0f);
    expect(INFINITY, rule, 0.0f, INFINITY);
    rule = plain(quotient);
    rule.infinity = SpecialAmax::one;
    expect(INFINITY, rule, 1.0f, 1.0f);
    expect(0.0f, rule, INFINITY, 0.0f);
    expect(7.0f, rule, 64.0f, 1.0f / 64.0f);
  }
}

TEST(F32Scale, DivisorsThatVanishAreOneOrNoFactor) {
  constexpr float kTiny = 0x1p-149f;  // over 448 it is zero
  F32ScaleRule rule = plain(Quotient::amax_over_max);
  expect(kTiny, rule, INFINITY, 0.0f);
  rule.zero = SpecialAmax::one;
  expect(kTiny, rule, 1.0f, 1.0f);
  expect(448.0f, rule, 1.0f, 1.0f);
  expect(896.0f, rule, 0.5f, 2.0f);
  rule.zero = SpecialAmax::no_factor;
  expect(kTiny, rule, 0.0f, 0.0f);
  expect(896.0f, rule, 0.5f, 2.0f);
  // A multiplier that comes out zero stays.
  rule = plain(Quotient::max_over_amax);
  rule.zero = SpecialAmax::one;
  expect(INFINITY, rule, 0.0f, INFINITY);
  rule.zero = SpecialAmax::no_factor;
  expect(INFINITY, rule, 0.0f, INFINITY);
}

TEST(F32Scale, MultipliersBeyondTheRangeAreLowered) {
  F32ScaleRule rule = plain(Quotient::max_over_amax);
  constexpr float kSmall = 0x1p-126f;  // 448 over it is beyond float
  expect(kSmall, rule, INFINITY, 0.0f);
  rule.too_large = TooLarge::input_max;
  expect(kSmall, rule, kInputMax, 1.0f / kInputMax);
  expect(7.0f, rule, 64.0f, 1.0f / 64.0f);
  rule.too_large = TooLarge::float_max;
  expect(kSmall, rule, of(0x7F7FFFFF), 1.0f / of(0x7F7FFFFF));
}

TEST(F32Scale, DivisorsHaveALeastBeforeOrAfterPowers) {
  constexpr float kLeast = 1.0f / (512.0f * 448.0f);
  F32ScaleRule rule = plain(Quotient::amax_over_max);
  rule.power_of_2 = PowerOfTwo::up;
  EXPECT_EQ(scale_of(0.0f, rule).stored, 0.0f);
  rule.least = LeastScale::before_power;
  EXPECT_EQ(scale_of(0.0f, rule).stored, 0x1p-17f);
  EXPECT_EQ(scale_of(896.0f, rule).stored, 2.0f);
  rule.least = LeastScale::after_power;
  EXPECT_EQ(scale_of(0.0f, rule).stored, kLeast);
  EXPECT_EQ(scale_of(896.0f, rule).stored, 2.0f);
  rule.power_of_2 = PowerOfTwo::none;
  EXPECT_EQ(scale_of(0.0f, rule).stored, kLeast);
  EXPECT_EQ(scale_of(4480.0f, rule).stored, 10.0f);
}

TEST(F32Scale, PowersOfTwoHaveTheirOwnFloor) {
  F32ScaleRule rule = plain(Quotient::amax_over_max);
  rule.power_floor = 3.0;
  EXPECT_EQ(scale_of(448.0f, rule).stored, 1.0f);  // no power was asked for
  rule.power_of_2 = PowerOfTwo::up;
  EXPECT_EQ(scale_of(448.0f, rule).stored, 4.0f);
  EXPECT_EQ(scale_of(448.0f * 5.0f, rule).stored, 8.0f);
}

TEST(F32Scale, NanMakesTheScaleNanUnlessClamped) {
  for (const Quotient quotient : {Quotient::max_over_amax_f64, Quotient::max_div_full_amax,
                                  Quotient::amax_over_max, Quotient::max_times_reciprocal}) {
    F32ScaleRule rule = plain(quotient);
    const F32Scale scale = scale_of(of(0x7F800001), rule);
    EXPECT_EQ(bit_cast<std::uint32_t>(scale.factor), 0x7FC00000u);
    EXPECT_EQ(bit_cast<std::uint32_t>(scale.stored), 0x7FC00000u);
    rule.power_of_2 = PowerOfTwo::up_clamped;
    EXPECT_TRUE(std::isfinite(scale_of(of(0x7F800001), rule).stored));
  }
  expect(of(0x7F800001),
         {.quotient = Quotient::amax_over_max, .power_of_2 = PowerOfTwo::up_clamped}, 0x1p-127f,
         0x1p127f);
}

TEST(F32Scale, OwnFactorsComeOfTheSameAmax) {
  F32ScaleRule rule = plain(Quotient::amax_over_max);
  int differ = 0;
  for (float amax = 1.0f; amax < 40.0f; amax += 0.37f) {
    rule.code = CodeScaling::divide;
    expect(amax, rule, amax / 448.0f, amax / 448.0f);
    rule.code = CodeScaling::own_quotient;
    expect(amax, rule, 448.0f / amax, amax / 448.0f);
    rule.code = CodeScaling::own_reciprocal;
    const float inverse = 1.0f / amax;
    expect(amax, rule, 448.0f * inverse, amax / 448.0f);
    differ += 448.0f * inverse != 448.0f / amax;
  }
  EXPECT_GT(differ, 0);
  rule.code = CodeScaling::own_quotient;
  expect(0.0f, rule, INFINITY, 0.0f);
  rule.code = CodeScaling::own_reciprocal;
  expect(0.0f, rule, INFINITY, 0.0f);
}

TEST(F32Scale, FactorsOfPowersAreMadeOfTheirBits) {
  F32ScaleRule rule = plain(Quotient::amax_over_max);
  rule.power_of_2 = PowerOfTwo::up;
  for (const CodeScaling own : {CodeScaling::own_quotient, CodeScaling::own_reciprocal}) {
    rule.code = own;
    expect(448.0f, rule, 1.0f, 1.0f);
    expect(450.0f, rule, 0.5f, 2.0f);
    expect(INFINITY, rule, -INFINITY, INFINITY);
    expect(0.0f, rule, 0x1p127f, 0.0f);
  }
}

}  // namespace
}  // namespace mxo
