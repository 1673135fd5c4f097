// Which accumulations give the bits of a product.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/case/call.h"
#include "golden/judge/progress.h"
#include "ops/sums.h"

namespace mxo {

/// One accumulation that gives every bit.
struct SumFit {
  Accumulation sum;
  std::string machine;  ///< the row of `mxo list sums` it was made from
  Parameters set;       ///< the --set keys that give it
};

/// What the outputs say about one parameter.
struct ParameterFit {
  std::string name;                 ///< "fraction bits"
  std::vector<std::string> values;  ///< those that fit, the smallest change first
  /// Outputs that differ at least once the parameter has any other value we try; -1: none tried.
  Index nearest_other = -1;
};

struct Fingerprint {
  Index outputs = 0;
  Index tried = 0;                       ///< accumulations
  std::vector<SumFit> fits;              ///< a named machine first
  std::vector<std::string> machines;     ///< rows of the table that fit as they stand
  std::vector<ParameterFit> parameters;  ///< empty if nothing fits
  std::string sentence;
};

/// Tries every accumulation of a grid around the machines of the table that take operands of
/// `kind`: chunk, fraction bits, output rounding, promotion, split (with its tile), floor.
/// `product` is a call of one of the grouped products, `y` what a kernel gave for it.
/// NaN is compared as a class.  Errors: those of the operator, Error(shape) for another y.
Fingerprint fit_sum(Backend& backend, const Call& product, OperandKind kind, const Tensor& y,
                    const Progress& progress = {});

}  // namespace mxo
