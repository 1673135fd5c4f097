// What x becomes before it is rounded to a code, as an operator has it and otherwise.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "golden/explain/recover/own_codes.h"

namespace mxo {

/// Neighbours in a row that share a scale.
struct BlockRun {
  Index first;
  Index count;
  Index scale;
};

/// What x becomes before it is rounded.
struct ValueCast {
  std::string words;  ///< empty: as the operator is defined
  std::function<void(const BlockRun&, double* values)> run;

  double value(Index i, Index scale) const {
    double v = 0.0;
    run({i, 1, scale}, &v);
    return v;
  }
};

/// Every way in which x may have met its scale; the operator's own first.  `own`, where it is
/// known, and `scales` outlive what is returned.
std::vector<ValueCast> casts_of(const Blocks& blocks, const Tensor& scales,
                                const std::vector<float>& amax, Dtype format,
                                const std::optional<OwnCodes>& own);

}  // namespace mxo
