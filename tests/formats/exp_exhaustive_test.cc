// exp and the logistic function of every float, against 64-bit arithmetic and, where that cannot
// decide the rounding, MPFR.
#include "formats/exp.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <mpfr.h>

namespace mxo {
namespace {

enum class Function { exp, sigmoid };

float by_mpfr(float x, Function f) {
  mpfr_t t;
  mpfr_init2(t, 200);
  mpfr_set_flt(t, f == Function::exp ? x : -x, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  if (f == Function::sigmoid) {
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_ui_div(t, 1, t, MPFR_RNDN);
  }
  const float result = mpfr_get_flt(t, MPFR_RNDN);
  mpfr_clear(t);
  return result;
}

/// The correctly rounded value; glibc's expl is good to a few units of 2^-64.
float twin(float x, Function f) {
  if (std::isnan(x)) return bit_cast<float>(0x7FC00000u);
  // Within 2^-27 of 0 both functions lie less than half an ulp from their value at 0.
  if (std::fabs(x) < 0x1p-27f) return f == Function::exp ? 1.0f : 0.5f;
  if (x > 200.0f) return f == Function::exp ? INFINITY : 1.0f;
  if (x < -200.0f) return 0.0f;
  const long double value = f == Function::exp
                                ? std::exp(static_cast<long double>(x))
                                : 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
  const auto below = static_cast<float>(value * (1 - 0x1p-60L));
  const auto above = static_cast<float>(value * (1 + 0x1p-60L));
  return below == above ? below : by_mpfr(x, f);
}

template <typename Ours>
std::int64_t wrong_results(Function f, Ours ours) {
  std::int64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) schedule(dynamic, 1 << 20)
  for (std::int64_t word = 0; word < std::int64_t{1} << 32; ++word) {
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(word));
    wrong += bit_cast<std::uint32_t>(ours(x)) != bit_cast<std::uint32_t>(twin(x, f)) ? 1 : 0;
  }
  return wrong;
}

TEST(Exp, IsTheRealValueRoundedOnceForEveryFloat) {
  EXPECT_EQ(wrong_results(Function::exp, [](float x) { return exp_rn(x); }), 0);
}

TEST(Sigmoid, IsTheRealValueRoundedOnceForEveryFloat) {
  EXPECT_EQ(wrong_results(Function::sigmoid, [](float x) { return sigmoid_rn(x); }), 0);
}

}  // namespace
}  // namespace mxo
