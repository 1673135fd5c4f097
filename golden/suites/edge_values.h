// Values at which conversions and scales change: for encoders, and as whole blocks.
#pragma once

#include <string>
#include <vector>

#include "formats/tensor.h"

namespace mxo {

/// Of one small format: every value, every tie between neighbours, one float either side of
/// each, both signs, overflow, and what is not finite.
std::vector<float> encode_boundaries(Dtype format);
/// Of e8m0: every power of two and every 1.5 * 2^k with one float either side.
std::vector<float> e8m0_boundaries();

/// 32 neighbours that share a scale, and which edge they are.
struct EdgeBlock {
  std::vector<float> x;
  std::string flag;
};

/// The edges of MX quantisation, for elements of `format`.
std::vector<EdgeBlock> edge_blocks(Dtype format);
/// Blocks whose amax is a scale boundary of any mode, or one float either side of it, for every
/// `step`-th exponent of f32; both ends of the range are always there.
std::vector<EdgeBlock> boundary_blocks(Dtype format, int step);

/// Blocks as x [R, K] of eight blocks a row (axis -1), or of 64 columns (axis -2: neighbours in
/// a column); missing blocks are zero.
enum class BlockPlacement { along_rows, along_columns };
Tensor place_blocks(const std::vector<EdgeBlock>& blocks, Dtype dtype, BlockPlacement placement);

/// The names of the edges among `blocks`, each once, in order.
std::vector<std::string> flags_of(const std::vector<EdgeBlock>& blocks);

}  // namespace mxo
