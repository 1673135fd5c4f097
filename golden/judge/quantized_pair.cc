// Dequantised values of both sides, and how many steps lie between them.
#include "golden/judge/quantized_pair.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mxo {
namespace {

/// A product is exact: a code has 4 bits of significand and a scale at most 24.
Element times(const Element& code, const Element& scale, bool divides) {
  const double value = divides ? code.value / scale.value : code.value * scale.value;
  return {value, 0, std::isnan(value), std::isinf(value)};
}

}  // namespace

std::string scales_name(std::string_view codes_name) {
  if (codes_name != "codes" && !codes_name.ends_with(".codes")) return {};
  return std::string(codes_name.substr(0, codes_name.size() - 5)) + "scales";
}

QuantizedPair::QuantizedPair(Dtype code_format, Dtype scale_format, ScaleMap map,
                             const Tensor& expected_scales, const Tensor& actual_scales)
    : mantissa_bits_(0),
      least_exponent_(0),
      read_scale_(scale_format),
      map_(std::move(map)),
      expected_scales_(expected_scales),
      actual_scales_(actual_scales) {
  visit_minifloat8(code_format, [&](auto tag) {
    constexpr FormatSpec spec = decltype(tag)::type::spec;
    mantissa_bits_ = spec.mantissa_bits;
    least_exponent_ = spec.min_exponent();
  });
}

/// Where a value lies among the codes, were their exponents without end; between two codes, a
/// fraction of the way.
double QuantizedPair::steps(double value) const {
  const double magnitude = std::fabs(value);
  int exponent = magnitude == 0 ? least_exponent_ : std::ilogb(magnitude);
  exponent = std::max(exponent, least_exponent_);
  const double significand = std::ldexp(magnitude, mantissa_bits_ - exponent);
  const double at = std::ldexp(exponent - least_exponent_, mantissa_bits_) + significand;
  return value < 0 ? -at : at;
}

bool QuantizedPair::same_scales() const {
  return expected_scales_.bytes() == actual_scales_.bytes() &&
         std::memcmp(expected_scales_.data(), actual_scales_.data(), actual_scales_.bytes()) == 0;
}

QuantizedPair::Run QuantizedPair::run(Index row, Index column) const {
  const ScaleMap::Place place = map_.place(row, column);
  if (place.scale < 0) return {place.run, 1};
  const std::uint64_t want = bits_at(expected_scales_, place.scale);
  const bool same = want == bits_at(actual_scales_, place.scale);
  return {place.run, same ? read_scale_(want).value : std::numeric_limits<double>::quiet_NaN()};
}

QuantizedPair::Values QuantizedPair::at(Index i, const Element& expected,
                                        const Element& actual) const {
  const Index scale = map_(i);
  if (scale < 0) return {expected, actual, ulp_distance(expected.order, actual.order)};
  const std::uint64_t want = bits_at(expected_scales_, scale);
  const std::uint64_t have = bits_at(actual_scales_, scale);
  const Element want_scale = read_scale_(want);
  const Element have_scale = want == have ? want_scale : read_scale_(have);
  Values values{times(expected, want_scale, map_.divides()),
                times(actual, have_scale, map_.divides()), 0};
  const double x = values.expected.value;
  const double y = values.actual.value;
  if (want == have) {
    values.distance = ulp_distance(expected.order, actual.order);
  } else if (x != y && !values.expected.nan && !values.actual.nan) {
    const double code = map_.divides() ? y * want_scale.value : y / want_scale.value;
    const double away = std::ceil(std::fabs(steps(code) - steps(expected.value)));
    constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();
    values.distance = away < 0x1p63 ? static_cast<std::uint64_t>(away) : kFar;
  }
  return values;
}

}  // namespace mxo
