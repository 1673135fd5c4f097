// Blocks with f32 scales: scales from amax, powers of two, given scales, and elements to codes and
// back.
#include "formats/scaled_block.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }
std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

constexpr std::uint32_t kQuiet = 0x7FC00000;

TEST(PowerOfTwo, ClampedKeepsTheFieldOfANormal) {
  constexpr auto clamped = PowerOfTwo::up_clamped;
  EXPECT_EQ(power_of_two(8.0f, clamped), 8.0f);
  EXPECT_EQ(power_of_two(of(bits(8.0f) + 1), clamped), 16.0f);
  EXPECT_EQ(power_of_two(0.0f, clamped), 0x1p-126f);
  EXPECT_EQ(power_of_two(0x1p-149f, clamped), 0x1p-126f);
  EXPECT_EQ(power_of_two(0x1p-126f, clamped), 0x1p-126f);
  EXPECT_EQ(power_of_two(0x1.8p-126f, clamped), 0x1p-125f);
  EXPECT_EQ(power_of_two(0x1p127f, clamped), 0x1p127f);
  EXPECT_EQ(power_of_two(0x1.8p127f, clamped), 0x1p127f);
  EXPECT_EQ(power_of_two(INFINITY, clamped), 0x1p127f);
  EXPECT_EQ(power_of_two(of(0x7FFFFFFF), clamped), 0x1p127f);
}

/// exp2(ceil(log2 x)) with the logarithm rounded to f32, through 200 bits.
float up_log2_by_mpfr(float x) {
  return std::ldexp(1.0f, static_cast<int>(std::ceil(test::by_mpfr(x, mpfr_log2))));
}

TEST(PowerOfTwo, UpByALogarithmTurnsWithItsFloat) {
  for (int exponent = -126; exponent < 127; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    const std::uint32_t steps = steps_lost_by_log2(exponent) + 2;
    for (std::uint32_t above = 0; above <= steps; ++above) {
      const float x = of(bits(power) + above);
      ASSERT_EQ(power_of_two(x, PowerOfTwo::up_log2), up_log2_by_mpfr(x)) << exponent << above;
    }
  }
  EXPECT_EQ(power_of_two(0x1p-149f, PowerOfTwo::up_log2), 0x1p-126f);
  EXPECT_EQ(power_of_two(of(23), PowerOfTwo::up_log2), 0x1p-126f);
  EXPECT_EQ(power_of_two(0.0f, PowerOfTwo::up_log2), 0.0f);
}

TEST(PowerOfTwo, StepsLostAreHalfASpacingTimesLn2) {
  for (const int none : {-3, -2, -1, 0, 1, 2, 3}) EXPECT_EQ(steps_lost_by_log2(none), 0u) << none;
  EXPECT_EQ(steps_lost_by_log2(4), 1u);  // 2^1 ln 2 = 1.39
  EXPECT_EQ(steps_lost_by_log2(-4), 0u);
  EXPECT_EQ(steps_lost_by_log2(-5), 1u);
  EXPECT_EQ(steps_lost_by_log2(127), 22u);  // 2^5 ln 2 = 22.2
  EXPECT_EQ(steps_lost_by_log2(-126), 22u);
}

TEST(ScaledBlock, ProductsComeBackInTheirType) {
  constexpr E4M3 kThree{0x44};
  EXPECT_EQ(dequantize_element<float>(kThree, 0.1f), 3.0f * 0.1f);
  EXPECT_EQ(bits(dequantize_element<float>(kThree, of(0xFFC00001))), kQuiet);
  EXPECT_EQ(dequantize_element<float>(kThree, E8M0{128}), 6.0f);
  EXPECT_EQ(dequantize_element<BF16>(kThree, E8M0{128}).bits, 0x40C0);
  EXPECT_EQ(dequantize_element<BF16>(kThree, of(0xFFC00001)).bits, 0x7FC0);
  EXPECT_EQ(dequantize_element<BF16>(kThree, 2.0f).bits, 0x40C0);
  EXPECT_EQ(dequantize_element<BF16>(E4M3{0xC4}, INFINITY).bits, 0xFF80);
}

/// The product of 3 (or of its negative) and a scale that lies `steps` floats above 1.
int product_in_bf16(bool negative, std::uint32_t steps) {
  const E4M3 three{static_cast<std::uint8_t>(negative ? 0xC4 : 0x44)};
  return dequantize_element<BF16>(three, of(bits(1.0f) + steps)).bits & 0x7FFF;
}

TEST(ScaledBlock, ProductsToSixteenBitsAreRoundedOnce) {
  // 3 (1 + n 2^-23) against 3 + 2^-7, the middle of two bf16: 2^-7 is n = 21845 and a third.
  // There the float nearest to the product is the middle itself, from below and from above.
  const auto nearest = [](std::uint32_t n) { return 3.0f * of(bits(1.0f) + n); };
  ASSERT_EQ(nearest(21845), 3.0078125f);
  for (const bool negative : {false, true}) {
    EXPECT_EQ(product_in_bf16(negative, 21845), 0x4040);  // a tie would go to the even 4040, too
    EXPECT_EQ(product_in_bf16(negative, 21846), 0x4041);
    // 3 + 3 * 2^-7, the middle above the odd 4041, is n = 65536: held exactly, the tie goes up.
    EXPECT_EQ(product_in_bf16(negative, 65536), 0x4042);
    EXPECT_EQ(product_in_bf16(negative, 65535), 0x4041);
  }
  // 3 + 5 * 2^-7 is n = 109226 and two thirds: from above 109227 the float is the middle itself.
  ASSERT_EQ(nearest(109227), 3.0390625f);
  for (const bool negative : {false, true}) {
    EXPECT_EQ(product_in_bf16(negative, 109227), 0x4043);  // a tie would go to the even 4042
    EXPECT_EQ(product_in_bf16(negative, 109226), 0x4042);
  }
  // 3 + 7 * 2^-7 is n = 152917 and a third: the product lies below, a tie would go to the even
  // 4044.
  ASSERT_EQ(nearest(152917), 3.0546875f);
  for (const bool negative : {false, true}) {
    EXPECT_EQ(product_in_bf16(negative, 152917), 0x4043);
    EXPECT_EQ(product_in_bf16(negative, 152918), 0x4044);
  }
}

TEST(ScaledBlock, ProductBelowItsFloatRoundsToOdd) {
  // 1.125 (1 + 87382 2^-23) lies 6 / 8 of a float above the middle of 3F91 and 3F92.
  EXPECT_EQ(dequantize_element<BF16>(E4M3{0x39}, of(bits(1.0f) + 87382)).bits, 0x3F92);
}

TEST(ScaledBlock, ProductsThatUnderflowKeepTheirSign) {
  constexpr float kTiny = 0x1p-149f;  // times 2^-9 it is a zero in f32
  EXPECT_EQ(dequantize_element<BF16>(E4M3{0x01}, kTiny).bits, 0);
  EXPECT_EQ(dequantize_element<BF16>(E4M3{0x81}, kTiny).bits, 0x8000);
  EXPECT_EQ(dequantize_element<F16>(E4M3{0x81}, kTiny).bits, 0x8000);
  EXPECT_EQ(dequantize_element<BF16>(E4M3{0x7E}, 0x1p127f).bits, 0x7F80);
  EXPECT_EQ(dequantize_element<BF16>(E4M3{0xFE}, 0x1p127f).bits, 0xFF80);
}

TEST(ScaledBlock, LargestFiniteIsThatOfTheType) {
  EXPECT_EQ(largest_finite<float>(), std::numeric_limits<float>::max());
  EXPECT_EQ(largest_finite<F16>(), 65504.0f);
  EXPECT_EQ(largest_finite<BF16>(), 0x1.fep127f);
}

constexpr float kInputMax = 1000.0f;
F32Scale scale_of(float amax, const F32ScaleRule& rule) {
  return f32_scale<kE4M3>(amax, rule, kInputMax);
}

/// A rule of one quotient and nothing else.
F32ScaleRule plain(Quotient quotient) {
  return {.quotient = quotient, .epsilon = 0.0, .floor = AmaxFloor::in_f32};
}
constexpr Quotient kMultipliers[] = {Quotient::max_over_amax_f64, Quotient::max_over_amax,
                                     Quotient::max_times_reciprocal};
constexpr Quotient kDivisors[] = {Quotient::amax_over_max, Quotient::amax_times_reciprocal};

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

TEST(RoundedOnce, ProductsAndQuotientsAreThoseOfTheirTypes) {
  const float x = 1.0f + 0x1p-12f;  // its square needs 25 bits
  EXPECT_EQ(mul_rn(x, x), 1.0f + 0x1p-11f);
  EXPECT_EQ(library::mul_rn(x, x), 1.0f + 0x1p-11f);
  EXPECT_EQ(div_rn(1.0f, 3.0f), 0x1.555556p-2f);
  EXPECT_EQ(library::div_rn(1.0f, 3.0f), 0x1.555556p-2f);
  EXPECT_EQ(div_rn(1.0, 3.0), 0x1.5555555555555p-2);
  EXPECT_EQ(library::div_rn(1.0, 3.0), 0x1.5555555555555p-2);
}

}  // namespace
}  // namespace mxo
