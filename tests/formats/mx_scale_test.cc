// E8M0 scales of single magnitudes, by every mode and profile, at the places where they part.
#include "formats/mx_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }

TEST(E8M0, CodesArePowersOfTwoExceptTheNan) {
  EXPECT_EQ(E8M0{}.bits, 127);
  EXPECT_EQ(decode(E8M0{127}), 1.0f);
  EXPECT_EQ(decode(E8M0{0}), 0x1p-127f);
  EXPECT_EQ(decode(E8M0{1}), 0x1p-126f);
  EXPECT_EQ(decode(E8M0{254}), 0x1p127f);
  EXPECT_EQ(bit_cast<std::uint32_t>(decode(E8M0{255})), 0x7FC00000u);
  EXPECT_EQ(reciprocal(E8M0{0}), 0x1p127f);
  EXPECT_EQ(reciprocal(E8M0{130}), 0x1p-3f);
  EXPECT_EQ(reciprocal(E8M0{254}), 0x1p-127f);
  EXPECT_EQ(bit_cast<std::uint32_t>(reciprocal(E8M0{255})), 0x7FC00000u);
  EXPECT_FALSE(E8M0{1} == E8M0{2});
}

int rounded_to(float value, E8M0Rounding rounding, bool saturate = false) {
  return encode_e8m0(value, rounding, saturate).bits;
}

TEST(E8M0, RoundingsTurnWhereTheySay) {
  const auto expect = [](float value, int nearest, int up, int zero) {
    EXPECT_EQ(rounded_to(value, E8M0Rounding::nearest), nearest) << value;
    EXPECT_EQ(rounded_to(value, E8M0Rounding::up), up) << value;
    EXPECT_EQ(rounded_to(value, E8M0Rounding::zero), zero) << value;
    EXPECT_EQ(rounded_to(-value, E8M0Rounding::up), up) << value;
  };
  expect(1.0f, 127, 127, 127);
  expect(of(0x3F800001), 127, 128, 127);
  expect(of(0x3FBFFFFF), 127, 128, 127);
  expect(1.5f, 128, 128, 127);
  expect(0x1.000002p-126f, 1, 2, 1);
  // Code 0 is 2^-127: below it everything is 0, above it a step up.
  expect(0.0f, 0, 0, 0);
  expect(0x1p-149f, 0, 0, 0);
  expect(0x1p-127f, 0, 0, 0);
  expect(of(0x00400001), 1, 1, 0);
  expect(of(0x007FFFFF), 1, 1, 0);
}

TEST(E8M0, OverflowAndInfinitySaturateWhereAsked) {
  constexpr auto up = E8M0Rounding::up;
  EXPECT_EQ(rounded_to(0x1p127f, up, true), 0xFE);
  EXPECT_EQ(rounded_to(0x1.8p127f, up, false), 0xFF);
  EXPECT_EQ(rounded_to(0x1.8p127f, up, true), 0xFE);
  EXPECT_EQ(rounded_to(0x1.8p127f, E8M0Rounding::zero, false), 0xFE);
  EXPECT_EQ(rounded_to(-INFINITY, up, false), 0xFF);
  EXPECT_EQ(rounded_to(INFINITY, up, true), 0xFE);
  EXPECT_EQ(rounded_to(of(0x7F800001), E8M0Rounding::zero, true), 0xFF);
  EXPECT_EQ(rounded_to(of(0xFFFFFFFF), up, true), 0xFF);
}

TEST(E8M0, ExponentsBeyondItAreClamped) {
  EXPECT_EQ(clamped_e8m0(0).bits, 127);
  EXPECT_EQ(clamped_e8m0(-126).bits, 1);
  EXPECT_EQ(clamped_e8m0(-127).bits, 0);
  EXPECT_EQ(clamped_e8m0(-128).bits, 0);
  EXPECT_EQ(clamped_e8m0(-1000).bits, 0);
  EXPECT_EQ(clamped_e8m0(127).bits, 0xFE);
  EXPECT_EQ(clamped_e8m0(128).bits, 0xFE);
  EXPECT_EQ(clamped_e8m0(129).bits, 0xFE);
}

TEST(SharedScale, ReciprocalsOfTheLargestValuesAreRounded) {
  EXPECT_EQ(max_reciprocal<kE4M3>(), static_cast<float>(1.0 / 448.0));
  EXPECT_EQ(max_reciprocal<kE5M2>(), static_cast<float>(1.0 / 57344.0));
  EXPECT_EQ(max_reciprocal<kE4M3Fnuz>(), static_cast<float>(1.0 / 240.0));
}

int scale_of(float amax, ScaleMode mode, const ScaleProfile& profile = kOcp) {
  return shared_scale<kE4M3>(amax, mode, profile).bits;
}

TEST(SharedScale, FloorTakesTheExponentField) {
  EXPECT_EQ(scale_of(256.0f, ScaleMode::floor), 127);
  EXPECT_EQ(scale_of(of(0x43FFFFFF), ScaleMode::floor), 127);
  EXPECT_EQ(scale_of(512.0f, ScaleMode::floor), 128);
  EXPECT_EQ(scale_of(0.0f, ScaleMode::floor), 0);
  EXPECT_EQ(scale_of(0x1p-119f, ScaleMode::floor), 0);
  EXPECT_EQ(scale_of(0x1p-118f, ScaleMode::floor), 1);
  EXPECT_EQ(shared_scale<kE5M2>(0x1p15f, ScaleMode::floor, kOcp).bits, 127);
}

TEST(SharedScale, CeilRoundsEveryFractionUp) {
  EXPECT_EQ(scale_of(256.0f, ScaleMode::ceil), 127);
  EXPECT_EQ(scale_of(of(0x43800001), ScaleMode::ceil), 128);
  EXPECT_EQ(scale_of(0.0f, ScaleMode::ceil), 0);
  EXPECT_EQ(scale_of(0x1p-149f, ScaleMode::ceil), 0);
}

TEST(SharedScale, EvenRoundsHalfUpToTheElementsBits) {
  // e4m3 keeps three bits: from 1 + 15/16 on the amax is the next power of two.
  EXPECT_EQ(scale_of(256.0f * 1.9375f, ScaleMode::even), 128);
  EXPECT_EQ(scale_of(of(0x43F7FFFF), ScaleMode::even), 127);
  EXPECT_EQ(shared_scale<kE5M2>(0x1.ep15f, ScaleMode::even, kOcp).bits, 128);
  EXPECT_EQ(shared_scale<kE5M2>(of(0x476FFFFF), ScaleMode::even, kOcp).bits, 127);
  EXPECT_EQ(scale_of(of(0x7F77FFFF), ScaleMode::even), 0xFE - 8);
  EXPECT_EQ(scale_of(of(0x7F780000), ScaleMode::even), 0xFF);  // rounded, it is infinite
}

TEST(SharedScale, RceilIsTheLeastThatHoldsTheBlock) {
  for (const Descale descale : {Descale::exact, Descale::division, Descale::reciprocal_multiply}) {
    const ScaleProfile profile{.descale = descale};
    EXPECT_EQ(scale_of(448.0f, ScaleMode::rceil, profile), 127);
    EXPECT_EQ(scale_of(448.0f * (1 + 0x1p-22f), ScaleMode::rceil, profile), 128);
    EXPECT_EQ(scale_of(447.0f, ScaleMode::rceil, profile), 127);
    EXPECT_EQ(scale_of(224.0f, ScaleMode::rceil, profile), 126);
    EXPECT_EQ(scale_of(0.0f, ScaleMode::rceil, profile), 0);
    EXPECT_EQ(scale_of(448.0f * 0x1p-127f, ScaleMode::rceil, profile), 0);
    EXPECT_EQ(scale_of(449.0f * 0x1p-127f, ScaleMode::rceil, profile), 1);
    EXPECT_EQ(shared_scale<kE5M2>(57344.0f, ScaleMode::rceil, profile).bits, 127);
    EXPECT_EQ(shared_scale<kE5M2>(57345.0f, ScaleMode::rceil, profile).bits, 128);
    EXPECT_EQ(shared_scale<kE4M3Fnuz>(240.0f, ScaleMode::rceil, profile).bits, 127);
    EXPECT_EQ(shared_scale<kE4M3Fnuz>(241.0f, ScaleMode::rceil, profile).bits, 128);
  }
}

TEST(SharedScale, QuotientsOfSixteenBitsAreRoundedFirst) {
  // 449 / 448 is 1 to eight bits and to eleven it is not; 448.1 / 448 is 1 to both.
  const ScaleProfile bf16{.descale = Descale::division_in_bf16};
  const ScaleProfile f16{.descale = Descale::division_in_f16};
  EXPECT_EQ(scale_of(449.0f, ScaleMode::rceil, bf16), 127);
  EXPECT_EQ(scale_of(449.0f, ScaleMode::rceil, f16), 128);
  EXPECT_EQ(scale_of(448.1f, ScaleMode::rceil, f16), 127);
  EXPECT_EQ(scale_of(456.0f, ScaleMode::rceil, bf16), 128);
  // f16 ends at 65504, so that a larger quotient is infinite; bf16 goes on.
  EXPECT_EQ(scale_of(448.0f * 0x1p17f, ScaleMode::rceil, f16), 0xFF);
  EXPECT_EQ(scale_of(448.0f * 0x1p17f, ScaleMode::rceil, bf16), 127 + 17);
}

TEST(SharedScale, OwnRulesDoNotReadTheMode) {
  for (const ScaleMode mode : {ScaleMode::rceil, ScaleMode::floor}) {
    const ScaleProfile profile{.exponent = ExponentRule::floor_amax};
    EXPECT_EQ(scale_of(3.0f, mode, profile), 128);
    EXPECT_EQ(scale_of(0.0f, mode, profile), 0);
  }
}

TEST(SharedScale, NanAndInfinityAreAsTheProfileSays) {
  const auto at = [](float amax, const ScaleProfile& profile) {
    return scale_of(amax, ScaleMode::floor, profile);
  };
  EXPECT_EQ(at(of(0x7F800001), kOcp), 0xFF);
  EXPECT_EQ(at(of(0x7F800001), {.nan_scale = 3}), 3);
  EXPECT_EQ(at(INFINITY, {.nan_scale = 3}), 0xFF);
  EXPECT_EQ(at(INFINITY, {.infinity = InfinityRule::saturate}), 0xFE);
  EXPECT_EQ(at(INFINITY, {.infinity = InfinityRule::saturate_flush}), 0xFE);
  EXPECT_EQ(at(INFINITY, {.infinity = InfinityRule::flush}), 0xFF);
}

TEST(SharedScale, FloorByAProductRoundsAmaxItself) {
  constexpr float kBelow = 0x1.fffffep-119f;  // its product by 2^-8 rounds up to 2^-126
  EXPECT_EQ(scale_of(kBelow, ScaleMode::floor, {.floor = FloorRule::exponent_field}), 0);
  EXPECT_EQ(scale_of(kBelow, ScaleMode::floor, {.floor = FloorRule::multiply}), 1);
  EXPECT_EQ(scale_of(3.0f, ScaleMode::floor, {.floor = FloorRule::multiply}), 128 - 8);
  EXPECT_EQ(shared_scale<kE5M2>(3.0f, ScaleMode::floor, {.floor = FloorRule::multiply}).bits,
            128 - 15);
  // The other modes take no product.
  EXPECT_EQ(scale_of(0x1.fffffep-119f, ScaleMode::even, {.floor = FloorRule::multiply}), 1);
  EXPECT_EQ(scale_of(0x1.8p-119f, ScaleMode::even, {.floor = FloorRule::multiply}), 0);
  EXPECT_EQ(scale_of(257.0f, ScaleMode::ceil, {.floor = FloorRule::multiply}), 128);
}

TEST(SharedScale, SubnormalQuotientsBecomeTheLeastNormalWhereAsked) {
  const ScaleProfile always{.descale = Descale::division, .up = SubnormalUp::always};
  const ScaleProfile exact{.descale = Descale::division};
  for (const ScaleMode mode : {ScaleMode::rceil, ScaleMode::ceil}) {
    EXPECT_EQ(scale_of(0x1p-123f, mode, always), 1);
    EXPECT_EQ(scale_of(0x1p-123f, mode, exact), 0);
    EXPECT_EQ(scale_of(0.0f, mode, always), 0);
  }
  EXPECT_EQ(scale_of(448.0f * 0x1p-126f, ScaleMode::rceil, always), 1);
  EXPECT_EQ(scale_of(449.0f * 0x1p-126f, ScaleMode::rceil, always), 2);
  EXPECT_EQ(scale_of(257.0f, ScaleMode::ceil, always), 128);
  EXPECT_EQ(scale_of(256.0f, ScaleMode::ceil, always), 127);
  EXPECT_EQ(shared_scale<kE5M2>(0x1p15f, ScaleMode::ceil, always).bits, 127);
  EXPECT_EQ(scale_of(0x1p-123f, ScaleMode::floor, always), 0);
}

}  // namespace
}  // namespace mxo
