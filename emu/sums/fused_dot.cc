// NVIDIA matrix units: align every term to the largest exponent, truncate, add, truncate.
// arXiv 2511.10909 and 2512.07004; the points on which they differ follow H200 captures:
// zero terms do not raise the largest exponent, its floor is a parameter, a zero result is +0.
#include "emu/sums/fused_dot.h"

#include <algorithm>

#include "emu/sums/dot_rounding.h"
#include "emu/sums/dot_terms.h"

namespace mxo {

float fused_dot_step(const Accumulation& how, int fraction, const DotOperand* a,
                     const DotOperand* b, float c) {
  Specials specials;
  specials.see(c);
  int largest = how.exponent_floor;
  const DotTerm joined = accumulator_term(c, step_range(how.mantissa).min_exponent);
  if (joined.significand != 0) largest = std::max(largest, joined.exponent);
  for (int i = 0; i < how.chunk; ++i) {
    specials.see(a[i], b[i]);
    const DotTerm term = product_term(a[i], b[i]);
    if (term.significand != 0) largest = std::max(largest, term.exponent);
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
