// The gate activation and its quantisation in one pass: the intermediate is never stored.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "ops/quantize.h"
#include "ops/swiglu.h"

namespace mxo {

/// The bytes of Swiglu into y [R, F] of type `rounding`, then Quantize of y.
///
///   x           [R, 2F]  f32, bf16 or f16, as Swiglu; `gate` as Swiglu
///   probs       f32 [R], optional
///   rounding    f32: y enters the quantiser as it is (FP8-Flow-MoE); bf16 or f16: rounded first
///   to          codes [R, F] and scales, any strides, so also transposed; row-major scales
///   group_ends  i32 [E], optional, as Quantize
///
/// Errors, before any byte is written: as Swiglu and Quantize; Error(dtype).
/// Source: FP8-Flow-MoE, TransformerEngine fork 4c097bf3; TransformerEngine d0067d0, gated cast.
struct SwigluQuantize {
  Operand x;
  Operand probs;
  Operand group_ends;
  Dtype rounding = Dtype::f32;
  ScaledResult to;
  ScaleRule rule = {};
  GateRule gate = {};
};

/// The bytes of SwigluBackward into dx [R, 2F] of type `rounding`, then Quantize of dx.
///
///   x, probs, rounding, gate as SwigluQuantize;  dy  [R, F]  f32, bf16 or f16
///   to      codes [R, 2F] and scales of dx; blocks count from column 0, so that the two halves
///           have blocks of their own exactly when F is a multiple of the block
///   dprobs  f32 [R], given exactly when probs is
///
/// Errors, before any byte is written: Error(shape), also where only one of probs and dprobs is
/// given, or the blocks do not divide [R, 2F]; Error(dtype).
/// Source: FP8-Flow-MoE, TransformerEngine fork 4c097bf3; TransformerEngine d0067d0, gated cast.
struct SwigluQuantizeBackward {
  Operand x;
  Operand probs;
  Operand dy;
  Operand group_ends;
  Dtype rounding = Dtype::f32;
  ScaledResult to;
  ScaleRule rule = {};
  Result dprobs;
  GateRule gate = {};
};

void swiglu_quantize(Backend& backend, const SwigluQuantize& op);
void swiglu_quantize_backward(Backend& backend, const SwigluQuantizeBackward& op);

}  // namespace mxo
