// Elements of an MX block: amax, codes by the rules of stacks, and products with the scale.
#include "formats/mx_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

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

}  // namespace
}  // namespace mxo
