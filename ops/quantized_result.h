// Where a fused operator leaves codes and scales, and by which rule it makes them.
#pragma once

#include "ops/quantize.h"
#include "ops/quantize_f32_scales.h"

namespace mxo {

class Check;

/// The result of Quantize where scales are e8m0, of QuantizeBlockwise where they are f32.
struct QuantizedResult {
  Result codes;
  Result scales;
  // e8m0
  BlockAxis axis = BlockAxis::columns;
  Index block = kMxBlock;
  ScaleMode mode = ScaleMode::rceil;
  ScaleProfile profile = kTorchao;
  // f32
  BlockShape shape = BlockShape::row_1x128;
  F32ScaleRule rule = kFlowBlockwise;
  Operand group_ends;

  constexpr bool mx() const { return scales.dtype == Dtype::e8m0; }
  /// The second of the two steps, for the x that the first one leaves.
  constexpr Quantize quantize_of(const Operand& x) const {
    return {x, codes, scales, mode, axis, block, profile};
  }
  constexpr QuantizeBlockwise quantize_blockwise_of(const Operand& x) const {
    return {x, group_ends, codes, scales, shape, rule};
  }
};

/// Throws what quantize or quantize_blockwise would, for x [R, K] that is not yet there.
void check_quantized(const Check& check, const Backend& backend, const QuantizedResult& to,
                     Dtype rounding, Index rows, Index columns);

}  // namespace mxo
