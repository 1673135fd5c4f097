// The judge's questions answered by the shortest loops, without a line of the judge.
#pragma once

#include <cmath>
#include <optional>

#include "golden/files/tensor_file.h"

namespace mxo::slow {

inline std::uint64_t bits(const Tensor& t, Index i) {
  std::uint64_t word = 0;
  std::memcpy(&word, t.data() + static_cast<std::size_t>(i) * size_of(t.dtype()),
              size_of(t.dtype()));
  return word;
}

/// Bits of the largest exponent and above, and of the fraction, of an IEEE-like format.
struct Layout {
  unsigned exponent;
  unsigned fraction;
};
inline std::optional<Layout> layout_of(Dtype d) {
  switch (d) {
    case Dtype::f32: return Layout{8, 23};
    case Dtype::bf16: return Layout{8, 7};
    case Dtype::f16: return Layout{5, 10};
    case Dtype::f64: return Layout{11, 52};
    case Dtype::e5m2: return Layout{5, 2};
    default: return std::nullopt;
  }
}

inline bool is_nan(Dtype d, std::uint64_t word) {
  if (d == Dtype::e4m3) return (word & 0x7F) == 0x7F;
  if (d == Dtype::e4m3fnuz || d == Dtype::e5m2fnuz) return word == 0x80;
  if (d == Dtype::e8m0) return word == 0xFF;
  const auto layout = layout_of(d);
  if (!layout) return false;
  const std::uint64_t exponent = ((std::uint64_t{1} << layout->exponent) - 1) << layout->fraction;
  const std::uint64_t fraction = (std::uint64_t{1} << layout->fraction) - 1;
  return (word & exponent) == exponent && (word & fraction) != 0;
}

/// The place of a number among all of its format; neighbours differ by one.
inline std::int64_t place(Dtype d, std::uint64_t word) {
  const auto layout = *layout_of(d);
  const std::uint64_t sign = std::uint64_t{1} << (layout.exponent + layout.fraction);
  const auto magnitude = static_cast<std::int64_t>(word & (sign - 1));
  return (word & sign) != 0 ? -magnitude : magnitude;
}

inline double value(Dtype d, std::uint64_t word) {
  const auto layout = *layout_of(d);
  const std::int64_t at = place(d, word);
  const std::int64_t magnitude = at < 0 ? -at : at;
  const std::int64_t exponent = magnitude >> layout.fraction;
  const std::int64_t bias = (std::int64_t{1} << (layout.exponent - 1)) - 1;
  if (exponent == 2 * bias + 1) return at < 0 ? -INFINITY : INFINITY;
  std::int64_t fraction = magnitude & ((std::int64_t{1} << layout.fraction) - 1);
  if (exponent > 0) fraction |= std::int64_t{1} << layout.fraction;
  const auto scale = static_cast<int>(std::max<std::int64_t>(exponent, 1) - bias -
                                      static_cast<std::int64_t>(layout.fraction));
  const double size = std::ldexp(static_cast<double>(fraction), scale);
  return (word >> (layout.exponent + layout.fraction) & 1) != 0 ? -size : size;
}

/// Which elements of one output are compared.
using ExpectedOutput = std::vector<bool>;

/// Floats of 8 bits may be stored as bytes, of which nobody else need say what they mean.
inline bool may_stand_for(Dtype found, Dtype expected_output) {
  const auto is_float8 = [](Dtype d) { return is_minifloat8(d) || d == Dtype::e8m0; };
  return found == expected_output || (found == Dtype::u8 && is_float8(expected_output)) ||
         (expected_output == Dtype::u8 && is_float8(found));
}

/// Whether `actual`, which holds `found`, has every expected element of `expected`, NaN being one
/// value.
inline bool same(const Tensor& expected, Dtype format, const Tensor& actual, Dtype found,
                 const ExpectedOutput& expected_output) {
  if (expected.shape() != actual.shape() || size_of(expected.dtype()) != size_of(actual.dtype()) ||
      !may_stand_for(found, format)) {
    return false;
  }
  for (Index i = 0; i < expected.elements(); ++i) {
    const std::uint64_t a = bits(expected, i);
    const std::uint64_t b = bits(actual, i);
    if (a == b || !expected_output[static_cast<std::size_t>(i)]) continue;
    if (!is_nan(format, a) || !is_nan(format, b)) return false;
  }
  return true;
}

/// Whether every expected element lies within `steps` of the format.
inline bool within(const Tensor& expected, Dtype format, const Tensor& actual,
                   const ExpectedOutput& expected_output, std::int64_t steps) {
  for (Index i = 0; i < expected.elements(); ++i) {
    const std::uint64_t a = bits(expected, i);
    const std::uint64_t b = bits(actual, i);
    if (a == b || !expected_output[static_cast<std::size_t>(i)]) continue;
    if (is_nan(format, a) != is_nan(format, b)) return false;
    if (!is_nan(format, a) && std::abs(place(format, a) - place(format, b)) > steps) return false;
  }
  return true;
}

/// Signal to noise in dB over the expected elements; NaN or infinity on one side alone: -infinity.
inline double sqnr(const Tensor& expected, Dtype format, const Tensor& actual,
                   const ExpectedOutput& expected_output) {
  double signal = 0;
  double noise = 0;
  for (Index i = 0; i < expected.elements(); ++i) {
    const std::uint64_t a = bits(expected, i);
    const std::uint64_t b = bits(actual, i);
    if (!expected_output[static_cast<std::size_t>(i)]) continue;
    if (is_nan(format, a) && is_nan(format, b)) continue;
    if (is_nan(format, a) || is_nan(format, b)) return -INFINITY;
    const double x = value(format, a);
    const double y = value(format, b);
    if (std::isinf(x) && x == y) continue;
    if (std::isinf(x) || std::isinf(y)) return -INFINITY;
    signal += x * x;
    noise += (x - y) * (x - y);
  }
  return noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
}

}  // namespace mxo::slow
