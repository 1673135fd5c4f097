// The operands of swiglu as rectangles.
#pragma once

#include <cmath>

#include "emu/cpu/swiglu_rows.h"
#include "formats/any_view.h"

namespace mxo::cpu {

inline ReadTile tile_of(const Operand& matrix) {
  return {{static_cast<const std::byte*>(matrix.data), matrix.stride[0], matrix.stride[1]},
          matrix.dtype};
}
inline WriteTile tile_of(const Result& matrix) {
  return {{static_cast<std::byte*>(matrix.data), matrix.stride[0], matrix.stride[1]}, matrix.dtype};
}

/// x [R, 2F] as its gate and its up half, and the probabilities of its rows.
struct SwigluOperands {
  Index width;  ///< F
  ReadTile a;
  ReadTile b;
  RowProbs probs;

  SwigluOperands(const Operand& x, const Operand& p)
      : width(x.extent[1] / 2), a(tile_of(x)), b(a.from(0, width)) {
    if (p.given()) probs = {static_cast<const float*>(p.data), p.stride[0]};
  }
};

/// dprobs[first + i] = totals[i]; every NaN is the canonical one.
inline void write_totals(const float* totals, Index count, const Result& dprobs, Index first) {
  const auto out = dprobs.as<float, 1>();
  for (Index i = 0; i < count; ++i) {
    out(first + i) = std::isnan(totals[i]) ? bit_cast<float>(0x7FC00000u) : totals[i];
  }
}

}  // namespace mxo::cpu
