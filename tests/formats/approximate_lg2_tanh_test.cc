// lg2 and tanh .approx of sm_90: single results seen on a GPU, and what special operands give.
#include "formats/approximate_lg2_tanh.h"

#include <cmath>

#include <gtest/gtest.h>

namespace mxo {
namespace {

std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

TEST(ApproximateLg2, NearOneErrorsAreThoseOfTheSum) {
  EXPECT_EQ(bits(lg2_approx(1.0f)), 0u);
  EXPECT_EQ(bits(lg2_approx(1.0f + 0x1p-23f)), 0x3495F600u);  // 3438AA3B would be right
  EXPECT_EQ(bits(lg2_approx(1.0f - 0x1p-24f)), 0xB24B4000u);  // B3B8AA3C would be right
}

TEST(ApproximateLg2, ResultsAreAsCaptured) {
  EXPECT_EQ(bits(lg2_approx(0.25f)), 0xBFFFFFFFu);  // a power of two, and not exact
  EXPECT_EQ(bits(lg2_approx(0.3f)), 0xBFDE54E2u);
  EXPECT_EQ(bits(lg2_approx(0.5f)), 0xBF7FFFFEu);
  EXPECT_EQ(bits(lg2_approx(2.0f)), 0x3F800000u);
  EXPECT_EQ(bits(lg2_approx(3.0f)), 0x3FCAE00Du);
  EXPECT_EQ(bits(lg2_approx(6.0f)), 0x40257006u);
}

TEST(ApproximateLg2, SpecialOperandsAreResultsNotErrors) {
  for (const auto f : {lg2_approx, lg2_approx_ftz}) {
    EXPECT_EQ(bits(f(NAN)), 0x7FFFFFFFu);
    EXPECT_EQ(bits(f(-1.0f)), 0x7FFFFFFFu);
    EXPECT_EQ(bits(f(-INFINITY)), 0x7FFFFFFFu);
    EXPECT_EQ(bits(f(0.0f)), 0xFF800000u);
    EXPECT_EQ(bits(f(-0.0f)), 0xFF800000u);
    EXPECT_EQ(bits(f(INFINITY)), 0x7F800000u);
  }
}

TEST(ApproximateLg2, SubnormalsCountWithoutFtz) {
  EXPECT_EQ(lg2_approx(0x1p-149f), -149.0f);
  EXPECT_EQ(bits(lg2_approx(-0x1p-149f)), 0x7FFFFFFFu);
  EXPECT_EQ(bits(lg2_approx_ftz(0x1p-149f)), 0xFF800000u);
  EXPECT_EQ(bits(lg2_approx_ftz(-0x1p-149f)), 0xFF800000u);
}

TEST(ApproximateTanh, ResultsAreAsCaptured) {
  EXPECT_EQ(bits(tanh_approx(0x1p-7f)), 0x3BFFFF00u);
  EXPECT_EQ(bits(tanh_approx(0.02f)), 0x3CA3D1CDu);
  EXPECT_EQ(bits(tanh_approx(0.05f)), 0x3D4CA139u);
  EXPECT_EQ(bits(tanh_approx(0.1f)), 0x3DCC1EE8u);
  EXPECT_EQ(bits(tanh_approx(0.3f)), 0x3E9526AFu);
  EXPECT_EQ(bits(tanh_approx(0.6f)), 0x3F097BC3u);
  EXPECT_EQ(bits(tanh_approx(1.0f)), 0x3F42F848u);
  EXPECT_EQ(bits(tanh_approx(3.0f)), 0x3F7EBBEEu);
  EXPECT_EQ(bits(tanh_approx(5.0f)), 0x3F7FFA10u);
  EXPECT_EQ(bits(tanh_approx(0x1.FFFFFEp+2f)), 0x3F7FFFFCu);
}

TEST(ApproximateTanh, IsOddAndBoundedAndTakesNan) {
  EXPECT_EQ(bits(tanh_approx(NAN)), 0x7FFFFFFFu);
  EXPECT_EQ(tanh_approx(INFINITY), 1.0f);
  EXPECT_EQ(tanh_approx(-8.0f), -1.0f);
  EXPECT_EQ(bits(tanh_approx(-0.0f)), 0x80000000u);
  EXPECT_EQ(tanh_approx(0x1p-149f), 0x1p-149f);
  for (std::uint32_t word = 0; word <= 0x7F800000u; word += 99991) {
    const float x = bit_cast<float>(word);
    ASSERT_EQ(bits(tanh_approx(-x)), bits(tanh_approx(x)) | 0x80000000u) << x;
  }
}

TEST(ApproximateTanh, LowerBitsOfTheOperandDoNotCount) {
  EXPECT_EQ(tanh_approx(0x1.00007Ep-8f), tanh_approx(0x1p-8f));
  EXPECT_NE(tanh_approx(0x1.00008p-8f), tanh_approx(0x1p-8f));
  EXPECT_EQ(tanh_approx(0x1.00000Ep+0f), tanh_approx(1.0f));
  EXPECT_NE(tanh_approx(0x1.00001p+0f), tanh_approx(1.0f));
}

}  // namespace
}  // namespace mxo
