// Sums of products by MPFR: wide enough to be exact, rounded by MPFR's own rounding.
#include "tests/support/big_dot.h"

#include <bit>
#include <cmath>

namespace mxo::test {
namespace {

// From 2^-332 to the sum of 2^40 terms below 2^288.
constexpr mpfr_prec_t kExactBits = 700;

void must_be_exact(int ternary) {
  if (ternary != 0) throw std::logic_error("BigSum: a step was not exact");
}

/// Rounds to `precision` bits with the exponents of binary32 and gradual underflow.
float to_binary32_range(const mpfr_t value, mpfr_prec_t precision) {
  const mpfr_exp_t emin = mpfr_get_emin();
  const mpfr_exp_t emax = mpfr_get_emax();
  mpfr_t rounded;
  mpfr_init2(rounded, precision);
  mpfr_set_emin(-124 - static_cast<mpfr_exp_t>(precision));  // 2^(emin-1) is the quantum
  mpfr_set_emax(128);
  int ternary = mpfr_set(rounded, value, MPFR_RNDN);
  ternary = mpfr_check_range(rounded, ternary, MPFR_RNDN);
  mpfr_subnormalize(rounded, ternary, MPFR_RNDN);
  const float result = mpfr_get_flt(rounded, MPFR_RNDN);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  mpfr_clear(rounded);
  return std::isnan(result) ? std::bit_cast<float>(0x7FC00000u) : result;
}

}  // namespace

BigSum::BigSum() {
  mpfr_init2(sum_, kExactBits);
  mpfr_init2(term_, 64 + 53);
  clear();
}
BigSum::~BigSum() {
  mpfr_clear(sum_);
  mpfr_clear(term_);
}
void BigSum::clear() { mpfr_set_zero(sum_, 1); }

void BigSum::add(double a, double b, double s, double t) {
  must_be_exact(mpfr_set_d(term_, a * b, MPFR_RNDN));
  must_be_exact(mpfr_mul_d(term_, term_, s * t, MPFR_RNDN));
  must_be_exact(mpfr_add(sum_, sum_, term_, MPFR_RNDN));
}

std::uint32_t BigSum::rounded(Dtype out) const {
  const float value = to_binary32_range(sum_, out == Dtype::f32 ? 24 : 8);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return out == Dtype::f32 ? bits : bits >> 16;
}

float big_multiply(float a, float b) { return big_fma(a, b, -0.0f); }

float big_fma(float a, float b, float c) {
  mpfr_t sum;
  mpfr_t addend;
  mpfr_init2(sum, kExactBits);
  mpfr_init2(addend, 24);
  mpfr_set_flt(sum, a, MPFR_RNDN);
  must_be_exact(mpfr_mul_d(sum, sum, static_cast<double>(b), MPFR_RNDN));
  mpfr_set_flt(addend, c, MPFR_RNDN);
  must_be_exact(mpfr_add(sum, sum, addend, MPFR_RNDN));
  const float result = to_binary32_range(sum, 24);
  mpfr_clear(sum);
  mpfr_clear(addend);
  return result;
}

}  // namespace mxo::test
