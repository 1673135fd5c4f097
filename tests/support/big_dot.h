// Sums of products by MPFR: wide enough to be exact, rounded by MPFR's own rounding.
#pragma once

#include <mpfr.h>

#include "formats/dtype.h"

namespace mxo::test {

/// A sum without rounding; an inexact step would throw std::logic_error.
class BigSum {
 public:
  BigSum();
  ~BigSum();
  BigSum(const BigSum&) = delete;
  BigSum& operator=(const BigSum&) = delete;

  void clear();
  /// Adds a * b * s * t; a * b and s * t must be exact in double, as products of codes (or bf16)
  /// and of f32 scales are.
  void add(double a, double b, double s, double t);
  /// The nearest f32 or bf16 as bits, ties to even; NaN is canonical.
  std::uint32_t rounded(Dtype out) const;

 private:
  mpfr_t sum_;
  mpfr_t term_;
};

/// a * b and fma(a, b, c) rounded once to f32 by MPFR.
float big_multiply(float a, float b);
float big_fma(float a, float b, float c);

}  // namespace mxo::test
