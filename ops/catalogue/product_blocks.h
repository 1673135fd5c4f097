// Which blocks the scales of an operand have, from their shapes.
#pragma once

#include "ops/catalogue/staging.h"
#include "ops/parameters.h"
#include "ops/scaled_tensor.h"

namespace mxo {

/// How the shape of scales follows from the blocks of an operand.
struct BlockShapes {
  std::vector<Index> codes;  ///< [.., R, K]
  Operand ends;  ///< on the host; given: rows are contracted, and blocks restart at each group
};

/// The block that `key` names; without it, the usual one that scales of this type and shape have
/// one element for: 1x32 (32x1) of e8m0, 1x128, 128x128 (128x1) of f32, then whole rows, columns
/// and tensors, then others.  A vector is one scale for each row.
/// Of operand `name`.scales, or of scales where it has no name.
/// Throws Error(shape) with the shapes that would fit, and Error(argument) where two blocks fit and
/// differ.
BlockExtents block_of_scales(std::string_view op, std::string_view name, std::string_view key,
                             const Parameters& set, const BlockShapes& shapes,
                             const Operand& scales);

}  // namespace mxo
