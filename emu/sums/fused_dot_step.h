// One chunk of an NVIDIA matrix unit, over operands that are indexed: align every term to the
// largest exponent, truncate, add, truncate.  arXiv 2511.10909 and 2512.07004; the points on which
// they differ follow H200 captures: zero terms do not raise the largest exponent, its floor is a
// parameter, a zero result is +0.
#pragma once

#include "emu/sums/dot_rounding.h"
#include "emu/sums/dot_terms.h"

namespace mxo {

template <typename A, typename B>
MXO_HD float fused_step(const Accumulation& how, int fraction, const A& a, const B& b, float c) {
  Specials specials;
  specials.see(c);
  int largest = how.exponent_floor;
  const DotTerm joined = accumulator_term(c, step_range(how.mantissa).min_exponent);
  if (joined.significand != 0 && joined.exponent > largest) largest = joined.exponent;
  for (int i = 0; i < how.chunk; ++i) {
    const DotOperand x = a[i];
    const DotOperand y = b[i];
    specials.see(x, y);
    const DotTerm term = product_term(x, y);
    if (term.significand != 0 && term.exponent > largest) largest = term.exponent;
  }
  if (specials.any()) return specials.result(how.family);

  std::int64_t total = cut(joined.significand, how.bits - 23 + joined.exponent - largest);
  for (int i = 0; i < how.chunk; ++i) {
    const DotTerm term = product_term(a[i], b[i]);
    total += cut(term.significand, how.bits - fraction + term.exponent - largest);
  }
  return round_step(total, largest - how.bits, how.rounding, how.mantissa);
}

}  // namespace mxo
