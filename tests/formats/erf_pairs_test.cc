// The pairs of doubles behind erf and tanh: sums, products, quotients and the two series.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>

#include "formats/erf.h"

namespace mxo::pairs {
namespace {

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
  mpfr_t t;
  mpfr_init2(t, 200);
  mpfr_set_d(t, x, MPFR_RNDN);
  exact(t, t, MPFR_RNDN);
  mpfr_d_div(t, pair.high, t, MPFR_RNDN);
  mpfr_sub_ui(t, t, 1, MPFR_RNDN);
  mpfr_t low;
  mpfr_init2(low, 200);
  mpfr_set_d(low, x, MPFR_RNDN);
  exact(low, low, MPFR_RNDN);
  mpfr_d_div(low, pair.low, low, MPFR_RNDN);
  mpfr_add(t, t, low, MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(t, MPFR_RNDN));
  mpfr_clear(t);
  mpfr_clear(low);
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

}  // namespace
}  // namespace mxo::pairs
