// MPFR does the rounding; 64 bits hold every value met here exactly.
#include "tests/support/oracle.h"

#include <cmath>

#include <mpfr.h>

namespace mxo::test {
namespace {

class Real {
 public:
  explicit Real(mpfr_prec_t bits = 64) { mpfr_init2(value, bits); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real() { mpfr_clear(value); }
  mpfr_t value;
};

/// MPFR with the exponents of a format, until the end of the scope.
class ExponentRange {
 public:
  explicit ExponentRange(mpfr_exp_t least) : least_(mpfr_get_emin()) { mpfr_set_emin(least); }
  ExponentRange(const ExponentRange&) = delete;
  ExponentRange& operator=(const ExponentRange&) = delete;
  ~ExponentRange() { mpfr_set_emin(least_); }

 private:
  mpfr_exp_t least_;
};

/// True if amax > significand * 2^exponent.
bool above(const Real& amax, unsigned significand, int exponent) {
  Real bound;
  mpfr_set_ui_2exp(bound.value, significand, exponent, MPFR_RNDN);
  return mpfr_greater_p(amax.value, bound.value) != 0;
}

unsigned largest_significand(FormatSpec s) {
  return (1u << s.mantissa_bits) +
         (static_cast<unsigned>(s.max_finite()) & ((1u << s.mantissa_bits) - 1));
}

}  // namespace

unsigned nearest_code(FormatSpec s, float value, Overflow overflow) {
  const unsigned sign_bit = 1u << s.sign_shift();
  const unsigned sign = std::signbit(value) ? sign_bit : 0;
  const bool fnuz = s.special == Special::nan_minus_0;
  if (std::isnan(value)) {
    if (fnuz) return sign_bit;
    const auto quiet = static_cast<unsigned>(s.max_finite()) + 1 + (1u << (s.mantissa_bits - 1));
    return s.bits() == 16 ? quiet : sign_bit - 1;
  }
  const auto largest = static_cast<unsigned>(s.max_finite());
  unsigned code = largest + 1;
  if (std::isfinite(value)) {
    // MPFR's significand is below 1: its exponents are one above the usual ones.
    const ExponentRange range(s.quantum_exponent() + 1);
    Real x(s.mantissa_bits + 1);
    const int inexact = mpfr_set_flt(x.value, std::fabs(value), MPFR_RNDN);
    mpfr_subnormalize(x.value, inexact, MPFR_RNDN);
    const double rounded = mpfr_get_d(x.value, MPFR_RNDN);
    if (rounded < std::ldexp(1.0, s.min_exponent())) {
      code = static_cast<unsigned>(std::ldexp(rounded, -s.quantum_exponent()));
    } else {
      const int exponent = std::ilogb(rounded);
      const double fraction = std::ldexp(rounded, s.mantissa_bits - exponent);
      code = static_cast<unsigned>(exponent + s.bias - 1) * (1u << s.mantissa_bits) +
             static_cast<unsigned>(fraction);
    }
  }
  if (code > largest) {
    if (overflow == Overflow::saturate) return sign + largest;
    if (fnuz) return sign_bit;
    return sign + largest + 1;  // infinity in an IEEE format, the only NaN in e4m3
  }
  return fnuz && code == 0 ? 0 : sign + code;
}

double code_value(FormatSpec s, unsigned code) {
  const unsigned magnitude = code & ((1u << s.sign_shift()) - 1);
  const unsigned exponent = magnitude >> s.mantissa_bits;
  const double fraction = std::ldexp(magnitude & ((1u << s.mantissa_bits) - 1), -s.mantissa_bits);
  const double value = exponent == 0
                           ? std::ldexp(fraction, 1 - s.bias)
                           : std::ldexp(1 + fraction, static_cast<int>(exponent) - s.bias);
  return code >> s.sign_shift() != 0 ? -value : value;
}

unsigned exact_scale(FormatSpec s, float amax, ScaleMode mode) {
  if (!std::isfinite(amax)) return 0xFF;
  Real x;
  mpfr_set_flt(x.value, amax, MPFR_RNDN);
  const int emax = s.max_exponent();
  unsigned scale = 0;
  switch (mode) {
    case ScaleMode::rceil:  // the least with amax <= max * scale
      while (
          above(x, largest_significand(s), emax - s.mantissa_bits - 127 + static_cast<int>(scale)))
        ++scale;
      return scale;
    case ScaleMode::ceil:  // the least with amax <= 2^emax * scale
      while (above(x, 1, emax - 127 + static_cast<int>(scale))) ++scale;
      return scale;
    case ScaleMode::even: {
      // Half up at 1 + m bits: add half a step, and let floor drop the rest.
      Real half;
      if (amax > 0) {
        mpfr_set_ui_2exp(half.value, 1, mpfr_get_exp(x.value) - s.mantissa_bits - 2, MPFR_RNDN);
        mpfr_add(x.value, x.value, half.value, MPFR_RNDN);
      }
      if (mpfr_cmp_ui_2exp(x.value, 1, 128) < 0) break;
      return 0xFF;  // torchao: the rounded amax is infinite
    }
    case ScaleMode::floor: break;
  }
  // The greatest with 2^emax * scale <= amax, at least 0.
  while (mpfr_cmp_ui_2exp(x.value, 1, emax - 127 + static_cast<int>(scale) + 1) >= 0) ++scale;
  return scale;
}

}  // namespace mxo::test
