// Which other codes a right quantiser may give: those across a tie.
// Thread safety: values; any threads at once.
#pragma once

#include <array>
#include <optional>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

/// Elements that share a scale, `step` apart, and the codes expected of them.
struct CodedRun {
  const std::byte* codes;
  const std::byte* elements;
  Index step;
  Index count;
  double scale;
};

/// How far other codes that quantize_bound admits lie from those expected, found by comparing each
/// quotient x / s with the middle between two codes.  What lies too near to the end of the bound is
/// left to the bound.
class TiedCodes {
 public:
  /// `divides`: a code stands for itself divided by its scale.
  TiedCodes(Dtype format, Dtype elements, bool divides);
  /// The sum of the squares of allowed_distance; nothing where the bound has to be asked.
  std::optional<double> squares(const CodedRun& run) const;

 private:
  /// A code beside another, in units of the scale.
  struct Neighbour {
    double value;  ///< NaN: none
    double middle;
    double gap;
  };
  struct Cell {
    double value;
    std::array<Neighbour, 2> neighbours;
  };
  /// Quotients between them are surely nearest to the code alone.
  struct Clear {
    float low, high;
  };

  template <typename Load>
  std::optional<double> sum(const CodedRun& run, const Load& load) const;
  std::optional<double> distance(const Cell& cell, double x, double scale) const;
  double scaled(double code, double scale) const { return divides_ ? code / scale : code * scale; }

  Dtype elements_;
  bool divides_;
  std::array<Cell, 256> cells_;
  std::array<Clear, 256> clear_;
};

}  // namespace mxo
