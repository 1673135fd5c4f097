// Rational numbers, and which of them round to a value: the gates' arithmetic a second time, exact.
#pragma once

#include <gmp.h>

#include <concepts>

#include "formats/dtype.h"

namespace mxo::twin {

class Rational {
 public:
  Rational() { mpq_init(q_); }
  Rational(double value) : Rational() { mpq_set_d(q_, value); }
  Rational(std::same_as<float> auto value) : Rational(static_cast<double>(value)) {}
  Rational(const Rational& other) : Rational() { mpq_set(q_, other.q_); }
  Rational(Rational&& other) noexcept : Rational() { mpq_swap(q_, other.q_); }
  Rational& operator=(Rational other) {
    mpq_swap(q_, other.q_);
    return *this;
  }
  ~Rational() { mpq_clear(q_); }

  friend Rational operator+(Rational a, const Rational& b) {
    mpq_add(a.q_, a.q_, b.q_);
    return a;
  }
  friend Rational operator-(Rational a, const Rational& b) {
    mpq_sub(a.q_, a.q_, b.q_);
    return a;
  }
  friend Rational operator*(Rational a, const Rational& b) {
    mpq_mul(a.q_, a.q_, b.q_);
    return a;
  }
  friend Rational operator/(Rational a, const Rational& b) {
    mpq_div(a.q_, a.q_, b.q_);
    return a;
  }
  friend bool operator<=(const Rational& a, const Rational& b) { return mpq_cmp(a.q_, b.q_) <= 0; }
  friend bool operator<(const Rational& a, const Rational& b) { return mpq_cmp(a.q_, b.q_) < 0; }
  friend bool operator==(const Rational& a, const Rational& b) {
    return mpq_equal(a.q_, b.q_) != 0;
  }
  Rational magnitude() const {
    Rational a;
    mpq_abs(a.q_, q_);
    return a;
  }
  Rational times_power(int exponent) const {
    Rational a;
    if (exponent < 0) {
      mpq_div_2exp(a.q_, q_, static_cast<mp_bitcnt_t>(-exponent));
    } else {
      mpq_mul_2exp(a.q_, q_, static_cast<mp_bitcnt_t>(exponent));
    }
    return a;
  }

 private:
  mpq_t q_;
};

/// An interval and how near its ends a number comes.
struct Interval {
  Rational low, high;
  bool holds(const Rational& real) const { return low <= real && real <= high; }
  /// Whether `real` lies further from the middle than this share of the way to an end.
  bool needs(double share, const Rational& real) const {
    const Rational half = (high - low) * Rational(0.5);
    return half * Rational(share) < (real - (low + half)).magnitude();
  }
};

inline const Rational& larger(const Rational& a, const Rational& b) { return a < b ? b : a; }

/// Fields of a type that results are rounded to.
struct Layout {
  int exponent_bits, mantissa_bits;
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
};

inline Layout layout_of(Dtype out) {
  return out == Dtype::bf16 ? Layout{8, 7} : out == Dtype::f16 ? Layout{5, 10} : Layout{8, 23};
}

/// 2^exponent.
inline Rational power(int exponent) { return Rational(1).times_power(exponent); }

/// The number of a pattern without sign; that of infinity is the next one after the largest.
inline Rational number(Layout layout, std::uint32_t pattern) {
  const auto field = static_cast<int>(pattern >> layout.mantissa_bits);
  const std::uint32_t mantissa = pattern & ((1u << layout.mantissa_bits) - 1);
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  const double significand =
      static_cast<double>(field == 0 ? mantissa : mantissa + (1u << layout.mantissa_bits));
  return Rational(significand).times_power((field == 0 ? 1 : field) - bias - layout.mantissa_bits);
}

/// Halfway from a pattern to the next.
inline Rational middle(Layout layout, std::uint32_t pattern) {
  return (number(layout, pattern) + number(layout, pattern + 1)) / Rational(2);
}

/// Whether some number no further than `stray` from `real` has `bits` as a nearest one.
inline bool admits(const Rational& real, const Rational& stray, Dtype out, std::uint32_t bits) {
  const Layout layout = layout_of(out);
  const std::uint32_t pattern = bits & (layout.sign() - 1);
  if (pattern > layout.infinity()) return false;
  const Rational at = (bits & layout.sign()) != 0 ? Rational(0) - real : real;
  const Rational low = pattern == 0 ? Rational(0) - middle(layout, 0) : middle(layout, pattern - 1);
  const bool above = low <= at + stray;
  return above && (pattern == layout.infinity() || at - stray <= middle(layout, pattern));
}

}  // namespace mxo::twin
