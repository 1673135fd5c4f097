// One position of one tensor: is it owed, is it what is expected, does the gate let it pass?
#pragma once

#include "golden/judge/comparator.h"
#include "golden/judge/elements.h"

namespace mxo {

/// The expectation and the gate in one place.
class Judge {
 public:
  Judge(const Owed& owed, const Tensor& actual, const CompareOptions& options)
      : owed_(owed),
        actual_(actual),
        options_(options),
        read_(owed.format),
        scale_(owed.format == Dtype::e8m0),
        columns_(owed.expected->rank() == 0 ? 1 : owed.expected->shape().back()) {}

  /// Codes of a quantised pair are found as the values they stand for.
  struct Finding {
    Element expected, actual;
    std::uint64_t distance = 0;  ///< steps of the format; 0 for NaN, and for scales (e8m0)
    bool differs = false;        ///< its bits are not what is expected
    bool violates = false;       ///< refused by the gate
    bool not_bounded = false;    ///< gate bound, and nothing is promised of it
  };

  bool is_owed(Index row, Index i) const;
  /// Element `i`, row-major.
  Finding at(Index i) const;

 private:
  bool same(std::uint64_t want, std::uint64_t have, const Finding& found) const;
  bool within(Index i, const Element& actual) const;
  bool refused(Index i, const Finding& found) const;
  bool by_value() const;

  const Owed& owed_;
  const Tensor& actual_;
  const CompareOptions options_;
  ElementReader read_;
  bool scale_;
  Index columns_;
};

}  // namespace mxo
