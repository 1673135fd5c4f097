// Codes and their scales: one tensor, whose values are what a gate is about.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "golden/judge/elements.h"
#include "golden/judge/scale_map.h"

namespace mxo {

/// "x.codes" has its scales in "x.scales", "codes" in "scales"; empty for any other name.
std::string scales_name(std::string_view codes_name);

/// The scales of both sides.  Points into its arguments.
class QuantizedPair {
 public:
  QuantizedPair(Dtype code_format, Dtype scale_format, ScaleMap map, const Tensor& expected_scales,
                const Tensor& actual_scales);

  /// Code `i` of both sides, times its scale, or divided by it.
  struct Values {
    Element expected, actual;
    /// Steps of the code's format at the expected scale, rounded up: 8 where an e4m3 doubles.
    std::uint64_t distance = 0;
  };
  /// `expected` and `actual` are the codes as elements; a row without a scale keeps its codes.
  Values at(Index i, const Element& expected, const Element& actual) const;
  Index scale_of(Index i) const { return map_(i); }
  /// How many codes from `i` on, in its row, are known to have its scale; at least 1.
  Index same_scale(Index i) const { return map_.run(i); }
  /// Codes of a row from `column` on that have one scale.
  struct Run {
    Index count;
    double scale;  ///< 1 in a row without; NaN where the sides differ
  };
  Run run(Index row, Index column) const;
  bool turned() const { return map_.turned(); }
  bool divides() const { return map_.divides(); }
  /// True where all bytes of the scales are equal.
  bool same_scales() const;

 private:
  double steps(double value) const;

  int mantissa_bits_;
  int least_exponent_;  ///< of a normal number
  ElementReader read_scale_;
  ScaleMap map_;
  const Tensor& expected_scales_;
  const Tensor& actual_scales_;
};

}  // namespace mxo
