// The real number a sum of products is, in fixed point, and its one rounding.
#pragma once

#include <cstdint>

#include "formats/minifloat.h"

namespace mxo {

/// A number without rounding: significand * 2^exponent, or a value that no sum can hold.
struct ExactNumber {
  enum class Kind : std::uint8_t { finite, infinite, nan };
  Kind kind = Kind::finite;
  std::int64_t significand = 0;  ///< odd or 0; its sign is that of an infinity, too
  int exponent = 0;
};

/// The exact value of `x`: at most 24 significant bits, 8 from bf16, 4 from an 8-bit code.
MXO_HD constexpr ExactNumber exact_number(float x) {
  const auto word = bit_cast<std::uint32_t>(x);
  const std::int64_t sign = word >> 31 != 0 ? -1 : 1;
  const std::uint32_t magnitude = word & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {ExactNumber::Kind::nan, 1, 0};
  if (magnitude == 0x7F800000u) return {ExactNumber::Kind::infinite, sign, 0};
  if (magnitude == 0) return {};
  const int field = static_cast<int>(magnitude >> 23);
  std::uint32_t significand = (magnitude & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);
  int exponent = (field > 0 ? field : 1) - 150;
  for (int zeros = 16; zeros > 0; zeros /= 2) {
    if ((significand & ((1u << zeros) - 1)) != 0) continue;
    significand >>= zeros;
    exponent += zeros;
  }
  return {ExactNumber::Kind::finite, sign * static_cast<std::int64_t>(significand), exponent};
}

/// a * b; the caller's factors have at most 63 significant bits together.  0 * Inf is NaN.
MXO_HD constexpr ExactNumber product(const ExactNumber& a, const ExactNumber& b) {
  using Kind = ExactNumber::Kind;
  if (a.kind == Kind::finite && b.kind == Kind::finite) {
    return {Kind::finite, a.significand * b.significand, a.exponent + b.exponent};
  }
  const bool nan =
      a.kind == Kind::nan || b.kind == Kind::nan || a.significand == 0 || b.significand == 0;
  if (nan) return {Kind::nan, 1, 0};
  return {Kind::infinite, (a.significand < 0) != (b.significand < 0) ? -1 : 1, 0};
}

/// A superaccumulator: every addition is exact, whatever the terms and their order.
///
/// The range.  The finest product is code * f32 * code * f32 with e5m2fnuz codes: quanta
/// 2^-17 and 2^-149 twice, 2^-332.  The largest is below (2^16 * 2^128)^2 = 2^288.  Digit i
/// weighs 2^(32 i - 352); 23 digits reach 2^384, which leaves room for 2^95 of the largest terms.
/// A digit is kept in a signed 64-bit limb and takes less than 2^33 from one term, so that 2^29
/// terms would fit before carries must move; they do after 2^20.
class ExactSum {
 public:
  /// Adds significand * 2^exponent, any significand; exponent in [-352, 288].
  MXO_HD constexpr void add(std::int64_t significand, int exponent) {
    if (pending_ == kMostPending) carry();
    ++pending_;
    const bool negative = significand < 0;
    const auto bits = static_cast<std::uint64_t>(significand);
    const std::uint64_t magnitude = negative ? ~bits + 1 : bits;
    const int place = exponent - kLowest;
    const int digit = place / 32;
    const int shift = place % 32;
    const std::uint64_t low = (magnitude & kDigit) << shift;
    const std::uint64_t high = (magnitude >> 32) << shift;
    const std::uint64_t part[3] = {low & kDigit, (low >> 32) + (high & kDigit), high >> 32};
    for (int i = 0; i < 3; ++i) {
      const auto value = static_cast<std::int64_t>(part[i]);
      limb_[digit + i] += negative ? -value : value;
    }
  }

  MXO_HD constexpr void add(const ExactNumber& term) {
    switch (term.kind) {
      case ExactNumber::Kind::finite: add(term.significand, term.exponent); return;
      case ExactNumber::Kind::infinite:
        (term.significand < 0 ? minus_infinity_ : plus_infinity_) = true;
        return;
      case ExactNumber::Kind::nan: nan_ = true; return;
    }
  }
  /// Adds what another has summed.
  MXO_HD constexpr void add(ExactSum other) {
    carry();
    other.carry();
    for (int i = 0; i < kDigits; ++i) limb_[i] += other.limb_[i];
    pending_ = 1;  // digits below 2^33, as one term leaves them
    nan_ = nan_ || other.nan_;
    plus_infinity_ = plus_infinity_ || other.plus_infinity_;
    minus_infinity_ = minus_infinity_ || other.minus_infinity_;
  }
  MXO_HD constexpr void add_product(const ExactNumber& a, const ExactNumber& b) {
    add(product(a, b));
  }

  MXO_HD constexpr float round_to_f32() const { return bit_cast<float>(round(23)); }
  MXO_HD constexpr BF16 round_to_bf16() const { return {static_cast<std::uint16_t>(round(7))}; }

 private:
  static constexpr int kLowest = -352;
  static constexpr int kDigits = 23;
  static constexpr std::uint64_t kDigit = 0xFFFFFFFFu;
  static constexpr std::uint32_t kMostPending = 1u << 20;

  /// Brings every digit but the top one into [0, 2^32); the top keeps the sign.
  MXO_HD constexpr void carry() {
    for (int i = 0; i + 1 < kDigits; ++i) {
      limb_[i + 1] += limb_[i] >> 32;  // arithmetic: rounds down, which leaves a digit
      limb_[i] &= static_cast<std::int64_t>(kDigit);
    }
    pending_ = 0;
  }
  MXO_HD constexpr void negate() {
    for (std::int64_t& limb : limb_) limb = -limb;
    carry();
  }
  MXO_HD constexpr std::uint32_t bit(int place) const {
    return static_cast<std::uint32_t>(limb_[place / 32] >> (place % 32)) & 1u;
  }
  MXO_HD constexpr bool any_below(int place) const {
    const int digit = place / 32;
    bool any = (limb_[digit] & ((std::int64_t{1} << place % 32) - 1)) != 0;
    for (int i = 0; i < digit; ++i) any = any || limb_[i] != 0;
    return any;
  }

  /// The bits of the nearest value, ties to even, with `m` stored mantissa bits and the exponent
  /// range of binary32 (IEEE 754-2019, 4.3.1).
  MXO_HD constexpr std::uint32_t round(int m) const {
    const std::uint32_t infinity = 0xFFu << m;
    if (nan_ || (plus_infinity_ && minus_infinity_)) return infinity | 1u << (m - 1);
    const std::uint32_t minus = 1u << (m + 8);
    if (plus_infinity_) return infinity;
    if (minus_infinity_) return infinity | minus;

    ExactSum sum = *this;
    sum.carry();
    const bool negative = sum.limb_[kDigits - 1] < 0;
    if (negative) sum.negate();
    const std::uint32_t sign = negative ? minus : 0u;
    int digit = kDigits - 1;
    while (digit >= 0 && sum.limb_[digit] == 0) --digit;
    if (digit < 0) return 0;
    int top = 32 * digit + 31;
    while (sum.bit(top) == 0) --top;

    // The last place kept: m below the leading one, but never below the subnormal quantum.
    const int quantum = -126 - m - kLowest;
    const int last = top - m > quantum ? top - m : quantum;
    std::uint32_t kept = 0;
    for (int place = top; place >= last; --place) kept = kept << 1 | sum.bit(place);
    const bool odd = (kept & 1u) != 0;
    if (sum.bit(last - 1) != 0 && (odd || sum.any_below(last - 1))) ++kept;
    // `kept` carries the implicit bit: added to the exponent below, it lifts a normal number to
    // its own field, and a carry out of the rounding to the next.
    const int base = last - quantum;
    if (base >= 0xFF) return infinity | sign;
    const std::uint32_t code = (static_cast<std::uint32_t>(base) << m) + kept;
    return (code < infinity ? code : infinity) | sign;
  }

  std::int64_t limb_[kDigits] = {};
  std::uint32_t pending_ = 0;
  bool nan_ = false;
  bool plus_infinity_ = false;
  bool minus_infinity_ = false;
};

}  // namespace mxo
