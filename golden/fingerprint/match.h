// How near one set of outputs comes to another.
#pragma once

#include <vector>

#include "golden/explain/case/call.h"

namespace mxo {

struct Match {
  Index compared = 0;
  Index differing = 0;
  double sqnr_db = 0;
  bool identical() const { return differing == 0; }
};

/// `actual` against `model`, outputs that actual lacks left out; NaN is one value.
/// The last argument limits the rows of y (-1: all).
Match match(const NamedTensors& model, const NamedTensors& actual, Index expected_output = -1);

}  // namespace mxo
