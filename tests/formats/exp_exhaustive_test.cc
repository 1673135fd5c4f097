// exp and the logistic function of every float, against libm in double and, where that cannot
// decide the rounding, MPFR.
#include "formats/exp.h"

#include <cmath>

#include <gtest/gtest.h>
#include <mpfr.h>

#include "tests/support/count.h"

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

/// The correctly rounded value.  glibc's exp is good to 2^-52; with the sum and the quotient of
/// sigmoid the error is below 2^-50.
float twin(float x, Function f) {
  if (std::isnan(x)) return bit_cast<float>(0x7FC00000u);
  // Within 2^-27 of 0 both functions lie less than half an ulp from their value at 0.
  if (std::fabs(x) < 0x1p-27f) return f == Function::exp ? 1.0f : 0.5f;
  if (x > 200.0f) return f == Function::exp ? INFINITY : 1.0f;
  if (x < -200.0f) return 0.0f;
  const auto wide = static_cast<double>(x);
  const double value = f == Function::exp ? std::exp(wide) : 1.0 / (1.0 + std::exp(-wide));
  const auto below = static_cast<float>(value * (1 - 0x1p-49));
  const auto above = static_cast<float>(value * (1 + 0x1p-49));
  return below == above ? below : by_mpfr(x, f);
}

template <typename Ours>
std::int64_t wrong_results(Function f, Ours ours) {
  constexpr std::int64_t kRun = 1 << 14;
  std::int64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) schedule(dynamic, 64)
  for (std::int64_t first = 0; first < std::int64_t{1} << 32; first += kRun) {
    const auto word = static_cast<std::uint32_t>(first);
    float wanted[kRun];
    for (std::uint32_t i = 0; i < kRun; ++i) wanted[i] = twin(bit_cast<float>(word + i), f);
    wrong += test::count(kRun, [word, ours, want = &wanted[0]](std::int32_t i) {
      const auto x = bit_cast<float>(word + static_cast<std::uint32_t>(i));
      return bit_cast<std::uint32_t>(ours(x)) != bit_cast<std::uint32_t>(want[i]);
    });
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
