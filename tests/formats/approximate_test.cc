// Functions of the chip's unit: captured samples, edges, and scaling by powers of two.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"

namespace mxo {
namespace {

std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

TEST(Approximate, Ex2BelowZeroIsAsCaptured) {
  // Integers are exact, what is nearer to zero than 2^-23 is 1, the rest takes ones' complements.
  EXPECT_EQ(bits(ex2_approx(-1.0f)), 0x3F000000u);
  EXPECT_EQ(bits(ex2_approx(-127.0f)), 0x003FFFFFu);  // a square, not 2^-127
  EXPECT_EQ(bits(ex2_approx_ftz(-127.0f)), 0u);
  EXPECT_EQ(bits(ex2_approx(-0x1p-24f)), 0x3F800000u);
  EXPECT_EQ(bits(ex2_approx(-0x1p-23f)), 0x3F7FFFFEu);
}

TEST(Approximate, SpecialOperandsAreResultsNotErrors) {
  const float infinity = INFINITY;
  for (const auto f : {rcp_approx, rsqrt_approx, sqrt_approx, ex2_approx}) {
    EXPECT_EQ(bits(f(NAN)), 0x7FFFFFFFu);
  }
  EXPECT_EQ(bits(rcp_approx(-0.0f)), 0xFF800000u);
  EXPECT_EQ(bits(rcp_approx(-infinity)), 0x80000000u);
  EXPECT_EQ(bits(rsqrt_approx(-0.0f)), 0xFF800000u);
  EXPECT_EQ(bits(rsqrt_approx(-1.0f)), 0x7FFFFFFFu);
  EXPECT_EQ(bits(rsqrt_approx(infinity)), 0u);
  EXPECT_EQ(bits(sqrt_approx(-0.0f)), 0x80000000u);
  EXPECT_EQ(bits(sqrt_approx(-1.0f)), 0x7FFFFFFFu);
  EXPECT_EQ(bits(ex2_approx(-infinity)), 0u);
  EXPECT_EQ(bits(ex2_approx(128.0f)), 0x7F800000u);
}

TEST(Approximate, ResultsScaleByPowersOfTwo) {
  for (std::uint32_t fraction = 0; fraction < 1u << 23; fraction += 10007) {
    const float x = bit_cast<float>(0x3F800000u + fraction);
    for (const int e : {-120, -7, 1, 100, 125}) {
      EXPECT_EQ(rcp_approx_ftz(std::ldexp(x, e)), std::ldexp(rcp_approx_ftz(x), -e)) << x;
    }
    for (const int e : {-60, -7, 1, 62}) {
      EXPECT_EQ(rsqrt_approx_ftz(std::ldexp(x, 2 * e)), std::ldexp(rsqrt_approx_ftz(x), -e)) << x;
      EXPECT_EQ(sqrt_approx_ftz(std::ldexp(x, 2 * e)), std::ldexp(sqrt_approx_ftz(x), e)) << x;
    }
  }
}

TEST(Approximate, SubnormalsCountWithoutFtz) {
  const float smallest = 0x1p-149f;
  EXPECT_EQ(rcp_approx(0x1p-127f), 0x1p127f);
  EXPECT_EQ(rcp_approx_ftz(0x1p-127f), INFINITY);
  EXPECT_EQ(rcp_approx(0x1p127f), 0x1p-127f);
  EXPECT_EQ(rcp_approx_ftz(0x1p127f), 0.0f);
  EXPECT_EQ(rsqrt_approx(0x1p-148f), 0x1p74f);
  EXPECT_EQ(sqrt_approx(0x1p-148f), 0x1p-74f);
  EXPECT_EQ(sqrt_approx_ftz(smallest), 0.0f);
}

TEST(Approximate, DivisionIsOneProductWithTheReciprocal) {
  EXPECT_EQ(bits(div_full(1.0f, 448.0f)), bits(rcp_approx(448.0f)));
  EXPECT_EQ(div_full(0x1p-140f, 0x1p-140f), 1.0f);
  EXPECT_EQ(div_full(0x1p127f, 0x1p127f), 1.0f);
  EXPECT_TRUE(std::isnan(div_full(0.0f, 0.0f)));
  int nearest = 0;
  for (int i = 1; i <= 448; ++i) {
    const auto a = static_cast<float>(i);
    nearest += div_full(a, 448.0f) == a / 448.0f ? 1 : 0;
  }
  EXPECT_LT(nearest, 448);  // it is not the division of IEEE 754
}

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
