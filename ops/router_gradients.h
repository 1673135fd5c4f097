// The way back through the router: from gradients of weights to those of logits, tokens and gate.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "ops/route.h"

namespace mxo {

/// Gradients of Route's weights, all in f32, every step one rounding, sums over slots ascending.
/// With s as Route computes it, S = (sum over the slots of s) + 1e-20 and g_j = dweights_j * scale:
///   ds_j = (g_j - (sum over i of fl(g_i * s_i)) / S) / S    with `normalize`, else ds_j = g_j
///   softmax: dlogits_e = s_e * (ds_e - sum over i of fl(ds_i * s_i)),  ds_e = 0 if not chosen
///   sigmoid: dlogits_e = ds_e * (s_e * (1 - s_e)), 0 if not chosen
///   sqrtsoftplus: dlogits_e = (ds_e / (2 s_e)) * sigma(x_e), 0 if not chosen; NaN where s_e is 0
///   softmax_of_chosen: as softmax with s of the slots and ds_j = g_j, 0 if not chosen
/// The choice itself has no gradient.
///
///   logits  f32, bf16 or f16 [T, E];  experts  i32 [T, k], Route's answer;  dweights  f32 [T, k]
///   dlogits  f32 [T, E]
///
/// T may be 0.  Errors, before any byte is written: Error(shape), also on an expert out of range;
/// Error(dtype).
/// Source: the derivative of Route; the order of the sums is ours.
struct RouteBackward {
  Operand logits;
  Operand experts;
  Operand dweights;
  Result dlogits;
  RouterScore score = RouterScore::softmax;
  bool normalize = true;
  float scale = 1.0f;
};

/// dx[t, d] = sum over e ascending of fl(dlogits[t, e] * router[e, d])
/// drouter[e, d] = sum over t ascending of fl(dlogits[t, e] * x[t, d])     both in f32 from +0
///
///   dlogits  f32 [T, E];  router, x  bf16, f16 or f32 [E, D], [T, D]
///   dx  f32 [T, D], or absent;  drouter  f32 [E, D], or absent; then router or x may be, too
///
/// Any extent may be 0.  Errors, before any byte is written: Error(shape), Error(dtype).
/// Source: the derivative of logits = x router^T; the order of the sums is ours.
struct RouterGradients {
  Operand dlogits;
  Operand router;
  Operand x;
  Result dx;
  Result drouter;
};

void route_backward(Backend& backend, const RouteBackward& op);
void router_gradients(Backend& backend, const RouterGradients& op);

}  // namespace mxo
