// Why an output is not the expected one: every alternative the library knows, tried in turn.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/call.h"
#include "golden/judge/progress.h"

namespace mxo {

/// One hypothesis, or two together, and how near it comes.
struct Finding {
  std::vector<std::string> names;  ///< of golden/explain/hypotheses.h
  std::string phrase;              ///< "the scales are FLOOR rather than RCEIL"
  Index compared = 0;              ///< elements it was held against
  Index differing = 0;
  double sqnr_db = 0;  ///< of actual against it; +inf if identical
};

struct Explanation {
  Index elements = 0;
  Index differing = 0;  ///< from the expected output
  double sqnr_db = 0;
  bool explained = false;         ///< the first finding reproduces every bit compared
  std::vector<Finding> findings;  ///< best first
  std::string sentence;           ///< "bit-identical if ...", or that nothing is
};

/// Holds `actual` against `expected`, the outputs of `call` under their names (outputs that
/// `actual` lacks are not compared), and where they differ runs alternatives on `backend`.  A
/// failing product is first narrowed to a slice of failing rows and columns; what reproduces the
/// slice is confirmed on the whole, or on a larger slice where the whole would take seconds.
/// Pairs are tried only where no single hypothesis fits.  NaN is compared as a class.
/// Errors: those of the operator; Error(shape) if an actual tensor has another shape.
Explanation explain(Backend& backend, const Call& call, const NamedTensors& expected,
                    const NamedTensors& actual, const Progress& progress = {});

}  // namespace mxo
