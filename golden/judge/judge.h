// One position of one tensor: is it compared, is it as expected, does it pass the gate?
#pragma once

#include <optional>

#include "golden/judge/code_runs.h"
#include "golden/judge/comparator.h"
#include "golden/judge/elements.h"

namespace mxo {

/// The expectation and the gate in one place.
class Judge {
 public:
  Judge(const ExpectedOutput& expected_output, const Tensor& actual, const CompareOptions& options)
      : expected_output_(expected_output),
        actual_(actual),
        options_(options),
        read_(expected_output.format),
        scale_(expected_output.format == Dtype::e8m0),
        whole_(is_whole(expected_output.format)),
        columns_(expected_output.expected->rank() == 0 ? 1
                                                       : expected_output.expected->shape().back()),
        glance_(expected_output.mask == nullptr &&
                expected_output.expectation.kind != Expectation::Kind::interval &&
                (expected_output.bound == nullptr || options.gate.kind == Gate::Kind::bits ||
                 (options.gate.kind == Gate::Kind::bound && expected_output.bound->promises_all))),
        squares_(expected_output.format),
        code_runs_(CodeRuns::of(expected_output, actual, options.gate)) {}

  /// Codes of a quantised pair are found as the values they stand for.
  struct Finding {
    Element expected, actual;
    std::uint64_t distance = 0;  ///< steps of the format; 0 for NaN, and for scales (e8m0)
    bool differs = false;        ///< its bits are not what is expected
    bool violates = false;       ///< refused by the gate
    bool not_bounded = false;    ///< gate bound, and nothing is promised of it
    bool judged = false;         ///< gate sqnr=auto, and a right kernel is known for it
    double allowed = 0;          ///< then how far from `expected` it may be
  };

  bool is_compared(Index row, Index i) const;
  /// Element `i`, row-major; `passes`: sure() has it.
  Finding at(Index i, bool passes = false) const;
  /// Elements of a block that the bound surely lets pass, row after row; none where few differ, or
  /// nothing tells.
  std::vector<bool> sure(const OutputBlock& block) const;
  /// Elements of a row from `begin` on, `end` at most.
  Neighbours together(Index row, Index begin, Index end) const;

 private:
  bool same(std::uint64_t want, std::uint64_t have, const Finding& found) const;
  bool within(Index i, const Element& actual) const;
  bool refused(Index i, const Finding& found, const ElementBound& bound) const;
  double allowed(Index i, const Finding& found, const ElementBound& bound) const;
  bool by_value() const;
  Index next_difference(Index row, Index begin, Index end) const;

  const ExpectedOutput& expected_output_;
  const Tensor& actual_;
  const CompareOptions options_;
  ElementReader read_;
  bool scale_;
  bool whole_;
  Index columns_;
  bool glance_;  ///< equal bits need no second look
  SquareSums squares_;
  std::optional<CodeRuns> code_runs_;
};

}  // namespace mxo
