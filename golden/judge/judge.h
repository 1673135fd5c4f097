// One position of one tensor: is it owed, is it what is expected, does the gate let it pass?
#pragma once

#include "golden/judge/comparator.h"
#include "golden/judge/elements.h"

namespace mxo {

/// The expectation and the gate in one place.
class Judge {
 public:
  Judge(const Owed& owed, const Tensor& actual, const CompareOptions& options)
      : owed_(owed), actual_(actual), options_(options), read_(owed.format) {}

  struct Finding {
    Element expected, actual;
    bool differs = false;   ///< not what is expected
    bool violates = false;  ///< differs, and the gate refuses it
  };

  bool is_owed(Index row, Index i) const;
  /// Element `i`, row-major.
  Finding at(Index i) const;

 private:
  bool same(std::uint64_t want, std::uint64_t have, const Finding& found) const;
  bool within(Index i, const Element& actual) const;
  bool refused(Index i, const Finding& found) const;

  const Owed& owed_;
  const Tensor& actual_;
  const CompareOptions& options_;
  ElementReader read_;
};

}  // namespace mxo
