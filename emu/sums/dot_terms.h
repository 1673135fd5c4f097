// Products and accumulators as integers with an exponent, and what specials make of a sum.
#pragma once

#include <cmath>

#include "emu/sums/dot_rounding.h"
#include "emu/sums/fused_dot.h"

namespace mxo {

/// significand * 2^(exponent - fraction), the fraction bits known to the caller.
struct DotTerm {
  std::int64_t significand = 0;
  int exponent = 0;
};

MXO_HD inline DotTerm product_term(const DotOperand& a, const DotOperand& b) {
  return {std::int64_t{a.significand} * b.significand, a.exponent + b.exponent};
}

/// The accumulator: 23 fraction bits, not normalised below 2^least.
MXO_HD inline DotTerm accumulator_term(float c, int least) {
  const auto word = bit_cast<std::uint32_t>(c);
  const int field = static_cast<int>(word >> 23 & 0xFF);
  std::int64_t significand = (word & 0x7FFFFF) | (field > 0 ? 0x800000 : 0);
  int exponent = (field > 0 ? field : 1) - 127;
  while (exponent < least && significand != 0) {  // binary16 subnormals held in an f32 word
    significand >>= 1;
    ++exponent;
  }
  return {(word >> 31) != 0 ? -significand : significand, exponent};
}

/// `significand` at `shift` more fraction bits; bits below are cut off the magnitude.  A zero
/// term takes no part in the largest exponent, so its shift can be anything.
MXO_HD inline std::int64_t cut(std::int64_t significand, int shift) {
  if (significand == 0) return 0;
  if (shift >= 0) return significand * (std::int64_t{1} << shift);
  if (shift <= -63) return 0;
  return significand < 0 ? -(-significand >> -shift) : significand >> -shift;
}

/// The same toward minus infinity.
MXO_HD inline std::int64_t cut_to_floor(std::int64_t significand, int shift) {
  if (significand == 0) return 0;
  if (shift >= 0) return significand * (std::int64_t{1} << shift);
  return significand >> (shift < -63 ? 63 : -shift);
}

/// Infinities and NaNs met among the terms of a sum.
class Specials {
 public:
  MXO_HD void see(const DotOperand& a, const DotOperand& b) {
    using Kind = DotOperand::Kind;
    if (a.kind == Kind::finite && b.kind == Kind::finite) return;
    if (a.kind == Kind::nan || b.kind == Kind::nan || a.significand == 0 || b.significand == 0) {
      nan_ = true;
    } else {
      see_infinity((a.significand < 0) != (b.significand < 0));
    }
  }
  MXO_HD void see(float c) {
    if (std::isnan(c)) nan_ = true;
    if (std::isinf(c)) see_infinity(c < 0);
  }
  MXO_HD void see_infinity(bool negative) { (negative ? minus_ : plus_) = true; }
  MXO_HD bool any() const { return nan_ || plus_ || minus_; }
  MXO_HD float result(SumFamily family) const {
    if (nan_ || (plus_ && minus_)) return bit_cast<float>(machine_nan(family));
    return plus_ ? kInfinity : -kInfinity;
  }

 private:
  bool nan_ = false;
  bool plus_ = false;
  bool minus_ = false;
};

}  // namespace mxo
