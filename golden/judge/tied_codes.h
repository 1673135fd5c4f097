// Which other codes a right quantiser may give: those across a tie.
// Thread safety: values; any threads at once.
#pragma once

#include <array>
#include <optional>

#include "formats/tensor.h"

namespace mxo {

/// What quantize_bound says of codes, by a look at each quotient x / s.  What lies too near to the
/// end of the bound is left to the bound.
class TiedCodes {
 public:
  /// `elements`, which must outlive it, are bf16, f16 or f32, and the transpose of the codes where
  /// `turned`.  `divides`: a code stands for itself divided by its scale.
  TiedCodes(Dtype format, const Tensor& elements, bool turned, bool divides);

  /// Codes of one row from element `at` on, which share a scale.
  struct Run {
    const std::byte* codes;
    Index at;
    Index count;
    double scale;
  };
  /// The sum of the squares of allowed_distance; nothing where the bound has to be asked.
  std::optional<double> squares(const Run& run) const;
  /// Whether element `at` may have `actual` for a value in place of `expected`; nothing where the
  /// bound has to be asked.
  std::optional<bool> admits(Index at, double expected, double actual) const;
  bool turned() const { return rows_ > 1; }

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
  /// A scale, and what x times it is the quotient; 0: x has to be divided.
  struct Unit {
    double scale, inverse;
  };

  template <typename Load>
  std::optional<double> sum(const Run& run, const Load& load) const;
  std::optional<double> distance(const Cell& cell, double x, const Unit& unit) const;
  double scaled(double code, double scale) const { return divides_ ? code / scale : code * scale; }
  Index element_of(Index at) const;

  const Tensor& elements_;
  Index rows_ = 1, columns_ = 1;  ///< of the codes, where they are turned
  bool divides_;
  std::array<Cell, 256> cells_;
  std::array<Clear, 256> clear_;
};

}  // namespace mxo
