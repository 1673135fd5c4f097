// swiglu on rectangles of strided rows, by way of the kernels of an instruction set.
#pragma once

#include "emu/cpu/float_kernels.h"
#include "emu/cpu/tiles.h"
#include "formats/dtype.h"

namespace mxo::cpu {

/// Probabilities of rows; without data they are 1.
struct RowProbs {
  const float* data = nullptr;
  Index stride = 0;
  float of(Index r) const { return data != nullptr ? data[r * stride] : 1.0f; }
  RowProbs from(Index r) const { return {data != nullptr ? data + r * stride : nullptr, stride}; }
};

/// A rectangle of f32, bf16 or f16 elements.
template <typename Byte>
struct FloatTile {
  Tile<Byte> tile;
  Dtype dtype = Dtype::f32;

  /// The rectangle that begins at (r, k) of this one.
  FloatTile from(Index r, Index k) const {
    const auto size = static_cast<Index>(size_of(dtype));
    return {
        {tile.data + (r * tile.stride_r + k * tile.stride_k) * size, tile.stride_r, tile.stride_k},
        dtype};
  }
};
using ReadTile = FloatTile<const std::byte>;
using WriteTile = FloatTile<std::byte>;

/// y = ((a * sigma(a)) * b) * p on rows x columns.
void gate_rectangle(const FloatKernels& kernels, const ReadTile& a, const ReadTile& b,
                    const RowProbs& probs, const WriteTile& y, Index rows, Index columns);

/// The gradients of that.  totals[r] grows by ((a * s) * b) * dy of its columns, ascending; null if
/// not wanted.
void gradient_rectangle(const FloatKernels& kernels, const ReadTile& a, const ReadTile& b,
                        const ReadTile& dy, const RowProbs& probs, const WriteTile& da,
                        const WriteTile& db, float* totals, Index rows, Index columns);

}  // namespace mxo::cpu
