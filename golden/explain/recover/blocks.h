// Blocks of x that share a scale.
#pragma once

#include <optional>
#include <vector>

#include "golden/explain/output.h"

namespace mxo {

/// x [.., R, K] and the extents of its blocks, from the shapes of codes and scales.
struct Blocks {
  const Tensor* x = nullptr;
  Index rows = 0;     ///< R of one matrix
  Index columns = 0;  ///< K
  Index block_rows = 1;
  Index block_columns = 1;
  Index scale_rows = 1;
  Index scale_columns = 1;

  float value(Index i) const;
  /// The scale that element i belongs to.
  Index scale_of(Index i) const {
    const Index r = i / columns;
    return (r / rows * scale_rows + r % rows / block_rows) * scale_columns +
           i % columns / block_columns;
  }
  Index scales() const {
    return x->elements() / std::max<Index>(rows * columns, 1) * scale_rows * scale_columns;
  }
  /// Largest magnitude of every block; NaN where a value of it is no number.
  std::vector<float> amax() const;
};

/// None where shapes do not tell (swizzled scales, transposed codes, groups).
std::optional<Blocks> blocks_of(const Call& call, const Output& codes, const Tensor& scales);

}  // namespace mxo
