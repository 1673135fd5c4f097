// How far a result may be from the real number, element by element.
// Thread safety: values; any threads at once.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "formats/dtype.h"
#include "formats/tensor_view.h"
#include "golden/judge/exact_terms.h"

namespace mxo {

class TiedCodes;  // golden/judge/tied_codes.h

/// Of one element.
struct ElementBound {
  double exact;  ///< near the real result; NaN: no bound, bits decide
  double stray;  ///< infinite: nothing is promised
  double doubt;  ///< |exact - real result| at most

  bool promises() const { return !std::isinf(stray); }
};

/// Rows and columns of an output seen as rows x last extent.
struct OutputBlock {
  Index row_begin, row_end, column_begin, column_end;
};

/// Element i passes as `value` where some number no further than stray[i] from the real result has
/// `value` as a nearest one of its type.  Row-major.
struct ErrorBound {
  std::vector<double> exact, stray, doubt;  ///< of every element; empty where `one` computes them
  std::function<ElementBound(Index)> one = {};
  Index count = 0;            ///< elements that `one` knows
  bool promises_all = false;  ///< known of all elements without computing them
  /// Adds terms whose real sum is the real result of element i, for values that `doubt` leaves
  /// open.  None: they pass.
  std::function<void(Index, ExactTerms&)> terms = {};
  /// Of a block those elements that pass as `value(i)` by a look at all of them together, row after
  /// row; what is not among them may pass.  None: unknown.
  std::function<std::vector<bool>(const OutputBlock&, const std::function<double(Index)>& value)>
      sure = {};

  /// Of codes: what is said of many of them at once.
  std::shared_ptr<const TiedCodes> codes = {};

  ElementBound at(Index i) const {
    const auto n = static_cast<std::size_t>(i);
    return one ? one(i) : ElementBound{exact[n], stray[n], doubt[n]};
  }
  Index size() const { return one ? count : static_cast<Index>(exact.size()); }
  bool promises(Index i) const { return at(i).promises(); }
  bool admits(Index i, Dtype out, double value) const { return admits(i, at(i), out, value); }
  /// The same, where at(i) is at hand.
  bool admits(Index i, const ElementBound& bound, Dtype out, double value) const;
};

/// The same with every element computed and kept.
ErrorBound computed(ErrorBound bound);

/// How far from `expected` the values of type `out` lie that `bound` admits, at most.
double allowed_distance(const ErrorBound& bound, Index i, const ElementBound& of, Dtype out,
                        double expected);

}  // namespace mxo
