// How far a result may be from the real number, element by element.
// Thread safety: values; any threads at once.
#pragma once

#include <functional>
#include <vector>

#include "formats/dtype.h"
#include "formats/tensor_view.h"
#include "golden/judge/exact_terms.h"

namespace mxo {

/// Element i passes as `value` where some number no further than stray[i] from the real result has
/// `value` as a nearest one of its type.  Row-major.
struct ErrorBound {
  std::vector<double> exact;  ///< near the real result; NaN: no bound, bits decide
  std::vector<double> stray;  ///< infinite: nothing is promised
  std::vector<double> doubt;  ///< |exact - real result| at most
  /// Adds terms whose real sum is the real result of element i, for values that `doubt` leaves
  /// open.  None: they pass.
  std::function<void(Index, ExactTerms&)> terms = {};

  bool promises(Index i) const;
  bool admits(Index i, Dtype out, double value) const;
};

}  // namespace mxo
