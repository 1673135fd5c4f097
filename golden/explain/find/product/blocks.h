// Blocks of x that share a scale.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/explain/case/output.h"

namespace mxo {

/// x [.., R, K] and which scale each element belongs to, from the shapes of codes and scales, the
/// groups of rows, and the layout of the scales.
struct Blocks {
  const Tensor* x = nullptr;
  Index rows = 0;     ///< R of one matrix
  Index columns = 0;  ///< K
  Index block_columns = 1;
  Index scale_columns = 1;
  Index matrix_scales = 0;       ///< scales of one matrix, padding of tiles included
  std::vector<Index> block_row;  ///< of each row of a matrix; -1: it belongs to no group
  bool tiled = false;            ///< scales lie in 128x4 tiles

  float value(Index i) const;
  /// The scale that element i belongs to; -1: none.
  Index scale_of(Index i) const;
  Index scales() const;
};

/// A number for every scale: the largest magnitude of its block, or what else may have been taken
/// for it.  NaN where a value of the block is none.
std::vector<float> amax_of(const Blocks& blocks);

/// What may have been taken in place of the largest magnitude of a block.
struct AmaxWindow {
  std::string words;  ///< "the block before"
  std::vector<float> amax;
};
std::vector<AmaxWindow> other_windows(const Blocks& blocks, const std::vector<float>& amax);

/// None where shapes do not tell (transposed codes).
std::optional<Blocks> blocks_of(const Call& call, const Output& codes, const Tensor& scales);

}  // namespace mxo
