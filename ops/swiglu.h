// The gate activation of an expert, forward and backward.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"
#include "ops/gate_rule.h"

namespace mxo {

class Backend;

/// With x[r, :] = [a | b], s = sigma(a) correctly rounded, every step one f32 rounding:
///   y[r, f] = ((a[f] * s[f]) * b[f]) * probs[r]
/// and under another gate, with a = min(a, limit), b = min(max(b, -limit), limit) + up_offset (NaN
/// stays NaN; an offset of 0 adds nothing) and the act and the roundings of
/// steps of ops/gate_rule.h, which are to bf16, where x is f16 to f16:
///   y[r, f] = (act(a[f]) * b[f]) * probs[r],  or  act(a[f]) * probs[r]  where there is no b
///
///   x      [R, 2F]  f32, bf16 or f16, gate a first unless `gate` says otherwise; [R, F] without b
///   probs  f32 [R], optional; absent, nothing is multiplied
///   y      [R, F]   f32, or bf16 or f16: the f32 value rounded once more
///
/// Any extent may be 0; any strides.  Errors, before any byte is written: Error(shape),
/// Error(dtype), Error(argument) as check_gate.
/// Source: arXiv:2002.05202 (SwiGLU); the order of products is FP8-Flow-MoE's (4c097bf3).  Gates:
/// openai/gpt-oss torch/model.py (alpha, limit, up + 1); torch ActivationGeluKernel.cu, both
/// forms; vLLM silu_and_mul (bf16_steps=activation); kernels of Triton 3.6 on an H200 (arithmetic;
/// tests/data, triton_kernels).
struct Swiglu {
  Operand x;
  Operand probs;
  Result y;
  GateRule gate = {};
};

/// The gradients of Swiglu, with g = dy * probs and dsilu = s * (1 + a * (1 - s)):
///   dx[r, f] = (g * dsilu) * b,   dx[r, F + f] = g * (a * s)
///   dprobs[r] = sum over f ascending of ((a * s) * b) * dy, from +0
/// Under another gate (g * act'(a)) * b and g * act(a); where steps are rounded h * act'(a)
/// with h = bf16(g * b), as autograd does, silu' as (h * s) * (1 + a * (1 - s)), and where every
/// step and alpha are given
///   bf16(h * s) + bf16(alpha * bf16((bf16(h * a) * (1 - s)) * s)).
/// Where the limit holds a or b the gradient is +0, and so it is of a NaN then.
///
///   x, probs as Swiglu, f16 for bf16 in these steps too where x is f16
///   dy      [R, F]   f32, bf16 or f16
///   dx      [R, 2F]  f32, bf16 or f16
///   dprobs  f32 [R], given exactly when probs is
///
/// Any extent may be 0; any strides.  Errors, before any byte is written: Error(shape), also where
/// only one of probs and dprobs is given; Error(dtype); Error(argument) as check_gate.
/// Source: the derivative of Swiglu; the order of products is FP8-Flow-MoE's (4c097bf3), of other
/// gates torch's derivatives of gelu, silu, sigmoid and clamp.
struct SwigluBackward {
  Operand x;
  Operand probs;
  Operand dy;
  Result dx;
  Result dprobs;
  GateRule gate = {};
};

void swiglu(Backend& backend, const Swiglu& op);
void swiglu_backward(Backend& backend, const SwigluBackward& op);

}  // namespace mxo
