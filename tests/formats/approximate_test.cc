// Approximate functions of sm_90: single results seen on a GPU, and how they scale.
#include "formats/approximate.h"

#include <cmath>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mxo
