// Neighbours in a row that are judged together.
// Thread safety: values; any threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "golden/judge/comparator.h"
#include "golden/judge/elements.h"

namespace mxo {

/// What neighbours in a row contribute, all of them finite.
struct Neighbours {
  Index count = 0;
  bool known = false;           ///< false: each has to be asked, and nothing below is said
  std::uint64_t differing = 0;  ///< by bits from the first on
  Index violating = 0;
  std::uint64_t max_ulp = 0;
  std::array<std::uint8_t, 10> distances =
      {};  ///< of those that differ, by bit_width(distance - 1)
  FigureSums sums = {};
  double max_absolute = 0;
  double max_relative = 0;
};

/// Codes that share a scale, which is the same on both sides.
class CodeRuns {
 public:
  /// Nothing where more than codes and scales decides, so that each code has to be asked.
  static std::optional<CodeRuns> of(const ExpectedOutput& expected_output, const Tensor& actual,
                                    const Gate& gate);
  /// Codes of a row from `begin` on, `end` at most.
  Neighbours at(Index row, Index begin, Index end) const;

 private:
  CodeRuns(const ExpectedOutput& expected_output, const Tensor& actual, const Gate& gate);
  /// Codes of both sides under their scale.
  struct Sides {
    const std::byte* expected;
    const std::byte* actual;
    Index first;  ///< of them, row-major
    double scale;
  };
  bool add_values(const Sides& sides, Neighbours& found) const;
  void add_difference(const Sides& sides, Index i, Neighbours& found) const;
  bool refuses(Index i, std::uint64_t distance, double expected, double actual) const;

  const ExpectedOutput& expected_output_;
  const Tensor& actual_;
  Gate gate_;
  Index columns_;
  bool divides_;
  SquareSums squares_;
  std::array<double, 256> values_;        ///< of codes; NaN for infinities
  std::array<std::int16_t, 256> orders_;  ///< Element::order
};

}  // namespace mxo
