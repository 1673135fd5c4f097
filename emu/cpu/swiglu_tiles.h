// The operands of swiglu as rectangles.
#pragma once

#include <cmath>
#include <utility>

#include "emu/cpu/swiglu_rows.h"
#include "formats/any_view.h"
#include "ops/gate_rule.h"

namespace mxo::cpu {

inline ReadTile tile_of(const Operand& matrix) {
  return {{static_cast<const std::byte*>(matrix.data), matrix.stride[0], matrix.stride[1]},
          matrix.dtype};
}
inline WriteTile tile_of(const Result& matrix) {
  return {{static_cast<std::byte*>(matrix.data), matrix.stride[0], matrix.stride[1]}, matrix.dtype};
}

/// The two halves of a matrix [R, 2F].
template <typename Byte>
struct HalfTiles {
  FloatTile<Byte> a;
  FloatTile<Byte> b;

  HalfTiles(const FloatTile<Byte>& x, Halves halves, Index width) : a(x), b(x.from(0, width)) {
    if (halves == Halves::up_first) std::swap(a, b);
    if (halves != Halves::interleaved) return;
    b = x.from(0, 1);
    for (FloatTile<Byte>* half : {&a, &b}) half->tile.stride_k *= 2;
  }
};

/// x [R, 2F] as its gate and its up half, and the probabilities of its rows.
struct SwigluOperands {
  Index width;  ///< F
  ReadTile a;
  ReadTile b;
  RowProbs probs;

  SwigluOperands(const Operand& x, const Operand& p, Halves halves)
      : SwigluOperands(HalfTiles(tile_of(x), halves, x.extent[1] / 2), x.extent[1] / 2, p) {}

 private:
  SwigluOperands(const HalfTiles<const std::byte>& of, Index columns, const Operand& p)
      : width(columns), a(of.a), b(of.b) {
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
