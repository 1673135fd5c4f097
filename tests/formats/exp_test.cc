// exp and the logistic function of a float against 200 bits, and at the ends of their ranges; erf
// and log1p against MPFR, and the pairs of doubles that erf is made of.
#include <random>

#include <gtest/gtest.h>

#include "formats/erf.h"
#include "formats/exp.h"
#include "formats/softplus.h"
#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

TEST(Exp, EndsAreZeroInfinityAndOne) {
  EXPECT_EQ(exp_rn(0.0f), 1.0f);
  EXPECT_EQ(sigmoid_rn(0.0f), 0.5f);
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

/// Of floats drawn from each binade whose exponent field is in [first, end).
void expect_in_binades(std::uint32_t first, std::uint32_t end, int each,
                       void (*expect)(std::uint32_t)) {
  std::uint32_t mix = 1;
  for (std::uint32_t exponent = first; exponent < end; ++exponent) {
    for (int i = 0; i < each; ++i) {
      mix = mix * 1664525u + 1013904223u;
      expect((mix & 0x80000000u) | exponent << 23 | (mix >> 4 & 0x7FFFFFu));
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Exp, FloatsOfEveryBinadeAreCorrectlyRounded) { expect_in_binades(90, 136, 1000, expect_both); }

TEST(Exp, FloatsBesideTheBoundsAreCorrectlyRounded) {
  for (const float bound :
       {89.0f, -104.0f, -103.0f, 88.72283f, 30.0f, 17.0f, 1.0f, -88.0f, -87.0f, 88.5f}) {
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

using namespace pairs;

using test::by_mpfr;

void expect_erf_and_tanh(std::uint32_t word) {
  const auto x = bit_cast<float>(word);
  ASSERT_EQ(bit_cast<std::uint32_t>(erf_rn(x)), bit_cast<std::uint32_t>(by_mpfr(x, mpfr_erf)))
      << std::hex << word;
  ASSERT_EQ(bit_cast<std::uint32_t>(tanh_rn(x)), bit_cast<std::uint32_t>(by_mpfr(x, mpfr_tanh)))
      << std::hex << word;
}

TEST(Erf, FloatsOfEveryBinadeAreCorrectlyRounded) {
  expect_in_binades(0, 131, 400, expect_erf_and_tanh);
}

/// All floats from 2^-16 on whose erf or tanh binary64 leaves undecided, and one below.
constexpr std::uint32_t kUndecided[] = {
    0x00AA320C, 0x3425C046, 0x37EE85C4, 0x3940EAD6, 0x39C0057D, 0x3AA60E18, 0x3AC37DE2,
    0x3B25A39D, 0x3C7C9E9F, 0x3C96AE2E, 0x3CD41B91, 0x3D7C3055, 0x3E1FCC60, 0x3EEE0566,
    0x3F043A75, 0x3F44DDFD, 0x3FF8BC7E, 0x4013CD84, 0x40A6EF82, 0x40ACB4D0, 0x40C5E8CA};

TEST(Erf, FloatsThatTheLibraryCannotDecideAreCorrectlyRounded) {
  for (const std::uint32_t word : kUndecided) {
    expect_erf_and_tanh(word);
    expect_erf_and_tanh(word | 0x80000000u);
  }
}

TEST(Erf, EndsAreSignedZerosOnesAndNan) {
  for (float (*function)(float) : {erf_rn, tanh_rn}) {
    EXPECT_TRUE(std::signbit(function(-0.0f)));
    EXPECT_EQ(function(INFINITY), 1.0f);
    EXPECT_EQ(function(-INFINITY), -1.0f);
    EXPECT_EQ(bit_cast<std::uint32_t>(function(-NAN)), 0x7FC00000u);
    EXPECT_EQ(function(0x1p-149f), 0x1p-149f);
  }
}

void expect(DoublePair found, double high, double low) {
  EXPECT_EQ(found.high, high);
  EXPECT_EQ(found.low, low);
}

TEST(Pairs, SumsKeepWhatADoubleLoses) {
  expect(two_sum(1.0, 0x1p-80), 1.0, 0x1p-80);
  expect(two_sum(0x1p-80, -1.0), -1.0, 0x1p-80);
  expect(two_sum(3.0, 5.0), 8.0, 0.0);
  expect(two_sum(1.0 + 0x1p-52, 0x1p-53), 1.0 + 0x1p-51, -0x1p-53);  // a tie, to even
  expect(fast_two_sum(1.0, 0x1p-80), 1.0, 0x1p-80);
  expect(fast_two_sum(1.0 + 0x1p-52, 0x1p-53), 1.0 + 0x1p-51, -0x1p-53);
}

TEST(Pairs, PlusAddsEveryPart) {
  expect(plus({1.0, 0x1p-60}, {0x1p-54, 0.0}), 1.0, 0x1p-54 + 0x1p-60);
  expect(plus({2.0, 0x1p-54}, {0.0, 0.0}), 2.0, 0x1p-54);
  expect(plus({1.0, 0x1p-54}, {-1.0, 0x1p-110}), 0x1p-54, 0x1p-110);
  expect(plus({3.0, 0x1p-60}, {-3.0, 0x1p-62}), 0x1.4p-60, 0.0);
}

TEST(Pairs, TimesTakesTheCrossProducts) {
  expect(times({3.0, 0x1p-60}, DoublePair{5.0, 0x1p-61}), 15.0, 13 * 0x1p-61);
  expect(times({1.0 + 0x1p-30, 0.0}, 1.0 + 0x1p-30), 1.0 + 0x1p-29, 0x1p-60);
  expect(times({1.0, 0x1p-60}, -3.0), -3.0, -3 * 0x1p-60);
}

TEST(Pairs, OverDividesWhatIsLeft) {
  constexpr double kThird = 0x1.5555555555555p-2;
  expect(over({1.0, 0.0}, 3.0), kThird, kThird * 0x1p-54);
  expect(over({1.0, 0x1p-60}, 2.0), 0.5, 0x1p-61);
  expect(over({1.0, 0.0}, DoublePair{3.0, 0.0}), kThird, kThird * 0x1p-54);
  expect(over({1.0, 0x1p-60}, DoublePair{2.0, 0x1p-60}), 0.5, 0x1p-62);
}

TEST(Pairs, NumbersBesideATieAreUndecided) {
  constexpr double kTie = 1.0 + 0x1p-24;
  for (const double sign : {1.0, -1.0}) {
    EXPECT_TRUE(decides(sign));
    EXPECT_TRUE(decides(sign * 0x1p-140));
    EXPECT_FALSE(decides(sign * kTie));
    for (const double near : {0x1p-50, -0x1p-50}) EXPECT_FALSE(decides(sign * kTie * (1 + near)));
    for (const double far : {0x1p-46, -0x1p-46}) EXPECT_TRUE(decides(sign * kTie * (1 + far)));
  }
  EXPECT_TRUE(decides(0.0));
}

/// |pair / exact - 1| for a function of MPFR.
template <typename Function>
double error_of(DoublePair pair, double x, const Function& exact) {
  mpfr_t real, off;
  mpfr_inits2(200, real, off, nullptr);
  mpfr_set_d(real, x, MPFR_RNDN);
  exact(real, real, MPFR_RNDN);
  mpfr_d_sub(off, pair.high, real, MPFR_RNDN);
  mpfr_add_d(off, off, pair.low, MPFR_RNDN);
  mpfr_div(off, off, real, MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(off, MPFR_RNDN));
  mpfr_clears(real, off, nullptr);
  return error;
}

TEST(Pairs, SeriesAgreeWithTwoHundredBits) {
  for (const double x : {0x1p-140, 0x1.8p-20, 0.25, 1.0, 2.5, 3.875}) {
    EXPECT_LT(error_of(erf_pair(x), x, mpfr_erf), 0x1p-74) << x;
    EXPECT_LT(error_of(erf_pair(-x), -x, mpfr_erf), 0x1p-74) << x;
    EXPECT_LT(error_of(tanh_pair(x), x, mpfr_tanh), 0x1p-90) << x;
  }
  EXPECT_LT(error_of(tanh_pair(9.875), 9.875, mpfr_tanh), 0x1p-90);
}

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
