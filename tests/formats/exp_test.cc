// exp and the logistic function of a float against 200 bits, and at the ends of their ranges.
#include "formats/exp.h"

#include <gtest/gtest.h>

#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

TEST(Exp, KeepsSubnormalsAndOverflowsWhereTheRealValueDoes) {
  EXPECT_EQ(exp_rn(0.0f), 1.0f);
  EXPECT_EQ(exp_rn(-0.0f), 1.0f);
  EXPECT_EQ(bit_cast<std::uint32_t>(exp_rn(1.0f)), 0x402DF854u);  // 2.7182817459106445
  EXPECT_EQ(exp_rn(-103.0f), 0x1p-149f);
  EXPECT_EQ(exp_rn(-104.0f), 0.0f);
  EXPECT_LT(exp_rn(88.72283f), INFINITY);
  EXPECT_EQ(exp_rn(88.72284f), INFINITY);
  EXPECT_EQ(exp_rn(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(exp_rn(NAN)));
}

TEST(Sigmoid, IsAHalfAtZeroAndReachesBothEnds) {
  EXPECT_EQ(sigmoid_rn(0.0f), 0.5f);
  EXPECT_EQ(sigmoid_rn(20.0f), 1.0f);
  EXPECT_EQ(sigmoid_rn(INFINITY), 1.0f);
  EXPECT_EQ(sigmoid_rn(-INFINITY), 0.0f);
  EXPECT_EQ(sigmoid_rn(-103.0f), 0x1p-149f);
  EXPECT_TRUE(std::isnan(sigmoid_rn(NAN)));
}

TEST(Exp, FarBeyondTheBoundsAreZeroInfinityOne) {
  for (const float far : {1000.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(exp_rn(far), INFINITY) << far;
    EXPECT_EQ(exp_rn(-far), 0.0f) << far;
    EXPECT_EQ(sigmoid_rn(far), 1.0f) << far;
    EXPECT_EQ(sigmoid_rn(-far), 0.0f) << far;
  }
}

TEST(Exp, EveryNanGivesTheCanonicalOne) {
  for (const std::uint32_t nan : {0x7F800001u, 0xFFC12345u}) {
    EXPECT_EQ(bit_cast<std::uint32_t>(exp_rn(bit_cast<float>(nan))), 0x7FC00000u);
    EXPECT_EQ(bit_cast<std::uint32_t>(sigmoid_rn(bit_cast<float>(nan))), 0x7FC00000u);
  }
}

TEST(Exp, TableOfPowersHoldsToAHundredBits) {
  mpfr_t power;
  mpfr_init2(power, 200);
  for (int j = 0; j < 32; ++j) {
    const DoublePair pair = exp2_of_32nds(j);
    mpfr_set_d(power, j / 32.0, MPFR_RNDN);
    mpfr_exp2(power, power, MPFR_RNDN);
    mpfr_sub_d(power, power, pair.high, MPFR_RNDN);
    mpfr_sub_d(power, power, pair.low, MPFR_RNDN);
    EXPECT_LT(std::fabs(mpfr_get_d(power, MPFR_RNDN)), 0x1p-100) << j;
  }
  mpfr_clear(power);
}

TEST(Exp, PairsHoldToTheBitsTheyPromise) {
  mpfr_t real;
  mpfr_init2(real, 200);
  for (double x = -109.7; x < 110.0; x += 3.37) {
    const DoublePair pair = exp_pair(x);
    mpfr_set_d(real, x, MPFR_RNDN);
    mpfr_exp(real, real, MPFR_RNDN);
    const double exact = mpfr_get_d(real, MPFR_RNDN);
    mpfr_sub_d(real, real, pair.high, MPFR_RNDN);
    mpfr_sub_d(real, real, pair.low, MPFR_RNDN);
    EXPECT_LT(std::fabs(mpfr_get_d(real, MPFR_RNDN)), 0x1p-58 * exact) << x;
    EXPECT_LE(std::fabs(pair.low), 0x1p-53 * pair.high) << x;
  }
  mpfr_clear(real);
}

TEST(RoundPair, LowPartDecidesWhereTheHighPartTies) {
  constexpr double kTie = 1.0 + 0x1p-24;  // between 1 and the next float
  constexpr double kOddTie = kTie + 0x1p-23;
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_EQ(round_pair({sign * kTie, 0.0}), sign);
    EXPECT_EQ(round_pair({sign * kOddTie, 0.0}), sign * (1.0f + 0x1p-22f));
    EXPECT_EQ(round_pair({sign * kTie, sign * 0x1p-60}), sign * (1.0f + 0x1p-23f));
    EXPECT_EQ(round_pair({sign * kTie, sign * -0x1p-60}), sign);
    EXPECT_EQ(round_pair({sign * kOddTie, sign * -0x1p-60}), sign * (1.0f + 0x1p-23f));
  }
}

void expect_both(std::uint32_t word) {
  const auto x = bit_cast<float>(word);
  ASSERT_EQ(bit_cast<std::uint32_t>(exp_rn(x)), bit_cast<std::uint32_t>(test::exp_by_mpfr(x)))
      << std::hex << word;
  ASSERT_EQ(bit_cast<std::uint32_t>(sigmoid_rn(x)), bit_cast<std::uint32_t>(test::sigma_by_mpfr(x)))
      << std::hex << word;
}

TEST(Exp, FloatsOfEveryBinadeAreCorrectlyRounded) {
  std::uint32_t mix = 1;
  for (std::uint32_t exponent = 90; exponent < 136; ++exponent) {
    for (int i = 0; i < 1000; ++i) {
      mix = mix * 1664525u + 1013904223u;
      expect_both((mix & 0x80000000u) | exponent << 23 | (mix >> 4 & 0x7FFFFFu));
    }
    if (HasFatalFailure()) return;
  }
}

TEST(Exp, FloatsBesideTheBoundsAreCorrectlyRounded) {
  for (const float bound : {89.0f, -104.0f, 30.0f, 17.0f, -88.0f, -87.0f, 88.5f}) {
    const auto word = bit_cast<std::uint32_t>(bound);
    for (const std::uint32_t near : {word - 1, word, word + 1}) expect_both(near);
  }
}

TEST(Sigmoid, FloatsThatAllButTieAreCorrectlyRounded) {
  // 1/2 + x/4 - x^3/48: of an odd x in steps of 2^-23 all but the middle of two floats.
  for (int k = 1; k < 600; k += 2) {
    const auto word = bit_cast<std::uint32_t>(static_cast<float>(k) * 0x1p-23f);
    expect_both(word);
    expect_both(word | 0x80000000u);
  }
  for (const std::uint32_t word :
       {0x3A689801u, 0x3B128604u, 0x3D21BC81u, 0xBA928601u, 0xBE104170u, 0xBF1964D0u}) {
    expect_both(word);
  }
}

}  // namespace
}  // namespace mxo
