// log1p and softplus of floats, against 200 bits.
#include "formats/softplus.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }

TEST(Softplus, Log1pIsCorrectlyRounded) {
  std::mt19937 random(3);
  for (std::uint32_t exponent = 127 - 42; exponent <= 127 + 32; ++exponent) {
    for (std::uint32_t i = 0; i < 600; ++i) {
      const std::uint32_t fraction = i < 50    ? i
                                     : i < 100 ? 0x7FFFFF - (i - 50)
                                               : static_cast<std::uint32_t>(random()) & 0x7FFFFF;
      const float x = of(exponent << 23 | fraction);
      ASSERT_EQ(log1p_rn(x), test::by_mpfr(x, mpfr_log1p)) << x;
    }
  }
}

TEST(Softplus, EdgesOfLog1pAreItsLimits) {
  EXPECT_EQ(log1p_rn(0.0f), 0.0f);
  EXPECT_EQ(log1p_rn(0x1p-149f), 0x1p-149f);
  EXPECT_EQ(log1p_rn(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(log1p_rn(NAN)));
}

TEST(Softplus, AboveTwentyIsTheValueItself) {
  EXPECT_EQ(softplus_f32(of(0x41A00001u)), of(0x41A00001u));
  EXPECT_EQ(softplus_f32(20.0f), 20.0f);
  EXPECT_EQ(softplus_f32(0.0f), log1p_rn(1.0f));
  EXPECT_EQ(softplus_f32(-200.0f), 0.0f);
  EXPECT_TRUE(std::isnan(softplus_f32(NAN)));
}

}  // namespace
}  // namespace mxo
