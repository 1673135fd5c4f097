// Functions of one float through 200 bits.
#pragma once

#include <mpfr.h>

namespace mxo::test {

/// function(t, t, rounding) of x to f32 through 200 bits.  MPFR's exponents are wide: its
/// conversion rounds subnormals.
template <typename Function>
float by_mpfr(float x, const Function& function) {
  mpfr_t t;
  mpfr_init2(t, 200);
  mpfr_set_flt(t, x, MPFR_RNDN);
  function(t, t, MPFR_RNDN);
  const float value = mpfr_get_flt(t, MPFR_RNDN);
  mpfr_clear(t);
  return value;
}

inline float exp_by_mpfr(float a) { return by_mpfr(a, mpfr_exp); }

/// sigma(a) = 1 / (1 + exp(-a)).
inline float sigma_by_mpfr(float a) {
  return by_mpfr(-a, [](mpfr_ptr to, mpfr_srcptr from, mpfr_rnd_t how) {
    mpfr_exp(to, from, how);
    mpfr_add_ui(to, to, 1, how);
    mpfr_ui_div(to, 1, to, how);
  });
}

}  // namespace mxo::test
