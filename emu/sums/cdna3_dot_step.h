// One chunk of an AMD CDNA3 matrix unit, over operands that are indexed: products are truncated,
// then two stages of floors, then RNE.  arXiv 2511.10909 and 2512.07004 (published models; no
// machine was checked).
#pragma once

#include "emu/sums/dot_rounding.h"
#include "emu/sums/dot_terms.h"

namespace mxo::cdna3 {

/// Fraction bits the sum of products keeps beside the accumulator.
inline constexpr int kSumBits = 31;
/// Below every exponent there is; scales reach down to 2^-282.
inline constexpr int kNoTerm = -100000;

/// A sum of products: total * 2^(exponent - bits).
struct Partial {
  std::int64_t total = 0;
  int exponent = kNoTerm;
};

template <typename A, typename B>
MXO_HD Partial sum_of_products(const Accumulation& how, int fraction, const A& a, const B& b,
                               int first, int past) {
  Partial sum;
  for (int i = first; i < past; ++i) {
    const DotTerm term = product_term(a[i], b[i]);
    if (term.significand != 0 && term.exponent > sum.exponent) sum.exponent = term.exponent;
  }
  if (sum.exponent == kNoTerm) return sum;
  for (int i = first; i < past; ++i) {
    const DotTerm term = product_term(a[i], b[i]);
    sum.total += cut(term.significand, how.bits - fraction + term.exponent - sum.exponent);
  }
  return sum;
}

/// Both at the larger exponent, with floors.
MXO_HD inline Partial join(const Partial& a, const Partial& b) {
  const int exponent = a.exponent > b.exponent ? a.exponent : b.exponent;
  if (exponent == kNoTerm) return {};
  return {
      cut_to_floor(a.total, a.exponent - exponent) + cut_to_floor(b.total, b.exponent - exponent),
      exponent};
}

/// A product of 2^128 or more counts as an infinity of its sign.
MXO_HD inline bool overflows(const DotTerm& term, int fraction) {
  const std::uint64_t magnitude =
      static_cast<std::uint64_t>(term.significand < 0 ? -term.significand : term.significand);
  return magnitude != 0 && width_of(magnitude) - 1 + term.exponent - fraction >= 128;
}

template <typename A, typename B>
MXO_HD float cdna3_step(const Accumulation& how, int fraction, const A& a, const B& b, float c) {
  Specials specials;
  specials.see(c);
  for (int i = 0; i < how.chunk; ++i) {
    const DotOperand x = a[i];
    const DotOperand y = b[i];
    specials.see(x, y);
    const DotTerm term = product_term(x, y);
    const bool finite = x.kind == DotOperand::Kind::finite && y.kind == DotOperand::Kind::finite;
    if (finite && overflows(term, fraction)) specials.see_infinity(term.significand < 0);
  }
  if (specials.any()) return specials.result(how.family);

  const bool parity = how.order == ChunkOrder::parity_apart;
  const int half = how.chunk / 2;
  const Partial products = parity ? join(sum_of_products(how, fraction, a, b, 0, half),
                                         sum_of_products(how, fraction, a, b, half, how.chunk))
                                  : sum_of_products(how, fraction, a, b, 0, how.chunk);

  const DotTerm joined = accumulator_term(c, -126);  // a zero has the exponent -126 as well
  const int largest = products.exponent > joined.exponent ? products.exponent : joined.exponent;
  const int widen = kSumBits - how.bits;
  std::int64_t total = cut_to_floor(products.total, widen + products.exponent - largest);
  const bool dropped = parity && joined.exponent < largest - how.bits - 1;
  if (!dropped) {
    const int shift = how.bits - 23 + joined.exponent - largest;
    total += cut_to_floor(joined.significand, shift) * (std::int64_t{1} << widen);
  }
  return round_step(total, largest - kSumBits, how.rounding, how.mantissa);
}

}  // namespace mxo::cdna3
