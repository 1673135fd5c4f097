// The gate activation of an expert, forward and backward.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// With x[r, :] = [a | b], s = sigma(a) correctly rounded, every step one f32 rounding:
///   y[r, f] = ((a[f] * s[f]) * b[f]) * probs[r]
///
///   x      [R, 2F]  f32 or bf16, gate a first
///   probs  f32 [R], optional; absent, nothing is multiplied
///   y      [R, F]   f32, or bf16: the f32 value rounded once more
///
/// Any extent may be 0; any strides.  Errors, before any byte is written: Error(shape),
/// Error(dtype).
/// Source: arXiv:2002.05202 (SwiGLU); the order of products is FP8-Flow-MoE's (4c097bf3).
struct Swiglu {
  Operand x;
  Operand probs;
  Result y;
};

/// The gradients of Swiglu, with g = dy * probs and dsilu = s * (1 + a * (1 - s)):
///   dx[r, f] = (g * dsilu) * b,   dx[r, F + f] = g * (a * s)
///   dprobs[r] = sum over f ascending of ((a * s) * b) * dy, from +0
///
///   x, probs as Swiglu;  dy  [R, F]  f32 or bf16
///   dx      [R, 2F]  f32 or bf16
///   dprobs  f32 [R], given exactly when probs is
///
/// Any extent may be 0; any strides.  Errors, before any byte is written: Error(shape), also where
/// only one of probs and dprobs is given; Error(dtype).
/// Source: the derivative of Swiglu; the order of products is FP8-Flow-MoE's (4c097bf3).
struct SwigluBackward {
  Operand x;
  Operand probs;
  Operand dy;
  Result dx;
  Result dprobs;
};

void swiglu(Backend& backend, const Swiglu& op);
void swiglu_backward(Backend& backend, const SwigluBackward& op);

}  // namespace mxo
