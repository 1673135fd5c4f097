// MX blocks: E8M0 scales by every mode and profile where they part, and elements by the rules of
// stacks.
#include "formats/mx_block.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }

int code_of(float scaled, const ElementRule& rule) {
  return encode_element<kE4M3>(scaled, rule).bits;
}

TEST(MxBlock, NanElementsBecomeWhatTheRuleSays) {
  for (const std::uint32_t nan : {0x7F800001u, 0xFFC00000u}) {
    EXPECT_EQ(code_of(of(nan), {}), 0x7F);
    EXPECT_EQ(code_of(of(nan), {.nan = NanCode::lowest}), 0xFE);
    EXPECT_EQ(code_of(of(nan), {.nan = NanCode::highest}), 0x7E);
    EXPECT_EQ(encode_element<kE4M3Fnuz>(of(nan), {.nan = NanCode::lowest, .fnuz_max = 224}).bits,
              0xFE);
    EXPECT_EQ(encode_element<kE5M2>(of(nan), {.nan = NanCode::highest}).bits, 0x7B);
  }
  // Infinity is no NaN: it overflows.
  EXPECT_EQ(code_of(INFINITY, {.overflow = Overflow::nonfinite, .nan = NanCode::lowest}), 0x7F);
}

TEST(MxBlock, ElementsOfFnuzEndWhereTheRuleSays) {
  const auto fnuz = [](float scaled, double max, Overflow overflow = Overflow::saturate) {
    return static_cast<int>(
        encode_element<kE4M3Fnuz>(scaled, {.overflow = overflow, .fnuz_max = max}).bits);
  };
  EXPECT_EQ(fnuz(240.0f, 0), 0x7F);
  EXPECT_EQ(encode_element<kE4M3Fnuz>(240.0f, {}).bits, 0x7F);
  EXPECT_EQ(fnuz(240.0f, 224), 0x7E);
  EXPECT_EQ(fnuz(-240.0f, 224), 0xFE);
  EXPECT_EQ(fnuz(208.0f, 224), 0x7D);
  EXPECT_EQ(fnuz(-208.0f, 224), 0xFD);
  EXPECT_EQ(fnuz(2.0f, 0.5), 0x38);  // 2^-1 with a bias of 8
  // Clamped, an infinity overflows no more.
  EXPECT_EQ(fnuz(INFINITY, 224, Overflow::nonfinite), 0x7E);
  EXPECT_EQ(fnuz(-INFINITY, 224, Overflow::nonfinite), 0xFE);
  EXPECT_EQ(fnuz(INFINITY, 0, Overflow::nonfinite), 0x80);
  // Other formats have no such end.
  EXPECT_EQ(code_of(448.0f, {.fnuz_max = 224}), 0x7E);
  EXPECT_EQ(encode_element<kE5M2Fnuz>(57344.0f, {.fnuz_max = 224}).bits, 0x7F);
  EXPECT_EQ(encode_element<kE5M2Fnuz>(-57344.0f, {.fnuz_max = 224}).bits, 0xFF);
}

TEST(MxBlock, QuantisedElementsSaturate) {
  EXPECT_EQ(quantize_element<kE4M3>(6.0f, E8M0{128}).bits, 0x44);  // 3
  EXPECT_EQ(quantize_element<kE4M3>(-1e30f, E8M0{127}).bits, 0xFE);
  EXPECT_EQ(quantize_element<kE4M3>(1.0f, E8M0{0xFF}).bits, 0x7F);
}

TEST(MxBlock, ProductsAreExactOrInfinite) {
  EXPECT_EQ(dequantize_f32(E4M3{0x44}, E8M0{128}), 6.0f);
  EXPECT_EQ(dequantize_f32(E5M2Fnuz{0x01}, E8M0{0}), 0x1p-144f);
  EXPECT_EQ(dequantize_f32(E4M3{0x7E}, E8M0{254}), INFINITY);
  EXPECT_EQ(dequantize_f32(E4M3{0xFE}, E8M0{254}), -INFINITY);
  EXPECT_TRUE(std::isnan(dequantize_f32(E4M3{0x7F}, E8M0{127})));
  EXPECT_TRUE(std::isnan(dequantize_f32(E4M3{0x38}, E8M0{255})));
  EXPECT_EQ(dequantize_bf16(E4M3{0x44}, E8M0{128}).bits, 0x40C0);
  EXPECT_EQ(dequantize_bf16(E4M3{0xFE}, E8M0{254}).bits, 0xFF80);
}

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
