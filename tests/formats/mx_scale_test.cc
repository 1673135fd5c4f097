// E8M0 scales of single magnitudes, by every mode and profile, at the places where they part.
#include "formats/mx_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace mxo {
namespace {

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

}  // namespace
}  // namespace mxo
