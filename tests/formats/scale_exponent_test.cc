// Exponents of scales by rules that take a logarithm, near the powers of two where they turn.
#include "formats/scale_exponent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }

/// floor(log2 x) with the logarithm rounded to f32, through 200 bits.
int floor_log2_by_mpfr(float x) {
  return static_cast<int>(std::floor(test::by_mpfr(x, mpfr_log2)));
}

TEST(ScaleExponent, NormalisedSplitsSubnormalsToo) {
  const auto expect = [](float x, int exponent, std::uint32_t fraction) {
    EXPECT_EQ(normalised(x).exponent, exponent) << x;
    EXPECT_EQ(normalised(x).fraction, fraction) << x;
  };
  expect(1.0f, 0, 0);
  expect(1.5f, 0, 0x400000);
  expect(0x1.8p-126f, -126, 0x400000);
  expect(0x1p-126f, -126, 0);
  expect(0x1p-127f, -127, 0);
  expect(0x1.8p-127f, -127, 0x400000);
  expect(0x1p-149f, -149, 0);
  expect(0x1.8p-148f, -148, 0x400000);
  expect(0x1.fffffep+127f, 127, 0x7FFFFF);
}

TEST(ScaleExponent, FloorOfALogarithmTurnsWithItsFloat) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    const std::uint32_t power = static_cast<std::uint32_t>(exponent + 127) << 23;
    EXPECT_EQ(floor_log2_f32(of(power)), exponent);
    const std::uint32_t steps = steps_gained_by_log2(exponent);
    for (std::uint32_t below = 1; below <= steps + 2 && below < power; ++below) {
      const float x = of(power - below);
      ASSERT_EQ(floor_log2_f32(x), floor_log2_by_mpfr(x)) << exponent << " " << below;
    }
  }
}

TEST(ScaleExponent, CeilingOfALogarithmTurnsWithItsFloat) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    const std::uint32_t power = static_cast<std::uint32_t>(exponent + 127) << 23;
    EXPECT_EQ(ceil_log2_f32(of(power)), exponent);
    const std::uint32_t steps = steps_lost_by_log2(exponent);
    for (std::uint32_t above = 1; above <= steps + 2; ++above) {
      const float x = of(power + above);
      const auto want = static_cast<int>(std::ceil(test::by_mpfr(x, mpfr_log2)));
      ASSERT_EQ(ceil_log2_f32(x), want) << exponent << " " << above;
    }
    ASSERT_EQ(ceil_log2_f32(of(power + 0x400000u)), exponent + 1);
  }
}

TEST(ScaleExponent, StepsGainedAreHalfASpacingTimesLn2) {
  EXPECT_EQ(steps_gained_by_log2(0), 0u);
  EXPECT_EQ(steps_gained_by_log2(1), 0u);  // 2^0 ln 2 = 0.69
  EXPECT_EQ(steps_gained_by_log2(-1), 0u);
  EXPECT_EQ(steps_gained_by_log2(3), 1u);  // 2^1 ln 2 = 1.39
  EXPECT_EQ(steps_gained_by_log2(-2), 1u);
  EXPECT_EQ(steps_gained_by_log2(5), 2u);     // 2^2 ln 2 = 2.77
  EXPECT_EQ(steps_gained_by_log2(127), 44u);  // 2^6 ln 2 = 44.4
  EXPECT_EQ(steps_gained_by_log2(-126), 44u);
}

TEST(ScaleExponent, NearestExponentTurnsAtTheRootOfTwo) {
  constexpr auto rule = ExponentRule::nearest_quotient;
  EXPECT_EQ(scale_exponent<kE4M3>(0.0f, rule), -127);
  const float below = of(0x3FB504F3);  // the root lies between this and the next float
  ASSERT_LT(static_cast<double>(below) * below, 2.0);
  // By 448 as 1.75 * 2^8 each product is rounded; by a format whose top is a power it is not.
  constexpr FormatSpec kPowerOnTop{4, 0, 7, Special::ieee};
  const float top = 128.0f;
  ASSERT_EQ(scale_exponent<kPowerOnTop>(top, rule), 0);
  EXPECT_EQ(scale_exponent<kPowerOnTop>(top * below, rule), 0);
  EXPECT_EQ(scale_exponent<kPowerOnTop>(top * of(0x3FB504F4), rule), 1);
  EXPECT_EQ(scale_exponent<kE4M3>(448.0f * 1.25f, rule), 0);
  EXPECT_EQ(scale_exponent<kE4M3>(448.0f * 1.5f, rule), 1);
  EXPECT_EQ(scale_exponent<kE5M2>(57344.0f * 0.75f, rule), 0);
  EXPECT_EQ(scale_exponent<kE5M2>(57344.0f * 0.625f, rule), -1);
}

TEST(ScaleExponent, QuarterOfABinadeIsAddedFirst) {
  constexpr auto rule = ExponentRule::quarter;
  EXPECT_EQ(scale_exponent<kE4M3>(1.0f, rule), -8);
  EXPECT_EQ(scale_exponent<kE4M3>(of(0x3FDFFFFF), rule), -8);
  EXPECT_EQ(scale_exponent<kE4M3>(1.75f, rule), -7);
  EXPECT_EQ(scale_exponent<kE4M3>(of(0x7F5FFFFF), rule), 119);
  EXPECT_EQ(scale_exponent<kE4M3>(of(0x7F600000), rule), 127);  // raised to infinity
  EXPECT_EQ(scale_exponent<kE5M2>(1.0f, rule), -15);
}

}  // namespace
}  // namespace mxo
