// One 128-row tile of the scaling-aware transpose, shared by the backends that run on a CPU.
#pragma once

#include <algorithm>

#include "formats/tensor_view.h"
#include "ops/scaled_tensor.h"
#include "ops/scaling_aware_transpose.h"

namespace mxo {

/// Rows [first, past) of one group; `tile` is its row of scales_out.
struct TransposeTile {
  Index first;
  Index past;
  Index tile;
};

constexpr int exponent_field(float scale) {
  return static_cast<int>(bit_cast<std::uint32_t>(scale) >> 23);
}

template <typename T>
void transpose_tile(const ScalingAwareTranspose& op, const TransposeTile& rows, Index block) {
  const auto codes = op.codes.as<const T, 2>();
  const auto scales = op.scales.as<const float, 2>();
  const auto codes_out = op.codes_out.as<T, 2>();
  const auto scales_out = op.scales_out.as<float, 2>();
  const Index k_first = block * kScaledBlock;
  const Index k_past = std::min(k_first + kScaledBlock, codes.extent[1]);
  float top = 0.0f;
  for (Index r = rows.first; r < rows.past; ++r) top = std::max(top, scales(r, block));
  for (Index k = k_first; k < k_past; ++k) scales_out(rows.tile, k) = top;
  for (Index r = rows.first; r < rows.past; ++r) {
    const int shift = exponent_field(top) - exponent_field(scales(r, block));
    for (Index k = k_first; k < k_past; ++k) {
      codes_out(k, r) = shifted_code(codes(r, k), shift, op.underflow);
    }
  }
}

/// Calls run(tile) for every tile of every group, in order.
template <typename Fn>
void for_each_tile(const Operand& group_ends, Fn&& run) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  Index begin = 0;
  Index tile = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    for (Index first = begin; first < ends(g); first += kScaledBlock) {
      run(TransposeTile{first, std::min<Index>(first + kScaledBlock, ends(g)), tile++});
    }
    begin = ends(g);
  }
}

}  // namespace mxo
