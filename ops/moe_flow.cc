// Products in blocks of 128 whose operands over tokens are made by moving exponents.
#include "ops/moe_flow.h"

#include "ops/grouped_matmul.h"
#include "ops/linear_factor.h"
#include "ops/moe_steps.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu_quantize.h"

namespace mxo {
namespace {

OwnedScaledTensor rows_for(Backend& backend, Dtype format, Index rows, Index width) {
  const Index shape[] = {rows, width};
  return {backend, format, shape, Dtype::f32, shape_of_scales(shape, kRowBlock), kRowBlock};
}

/// w [E, N, K] in 128x128 blocks.
OwnedScaledTensor weight(Backend& backend, Dtype format, const Operand& w) {
  return quantized(backend, w, {}, format, Dtype::f32, kSquareBlock, f32_rule(kFlowBlockwise));
}

/// y = x w^T, or x w where `w` is given transposed.
void product(Backend& backend, const SavedMoeLayer& saved, const ScaledTensor& x,
             const ScaledTensor& w, const Result& y) {
  grouped_matmul(backend, {x, w, saved.plan.group_ends.operand(), saved.call.sum, y});
}

/// Row-wise codes scaled along tokens instead, as a transposed view: codes [R, K] whose columns are
/// adjacent, scales [tiles, K].
OwnedScaledTensor along_tokens(Backend& backend, const SavedMoeLayer& saved,
                               const ScaledTensor& x) {
  const Operand ends = saved.plan.group_ends.operand();
  const Index rows = x.codes.extent[0];
  const Index width = x.codes.extent[1];
  BackendTensor codes(backend, x.codes.dtype, {width, rows});
  BackendTensor scales(backend, Dtype::f32,
                       {most_row_blocks(backend, ends, kScaledBlock, rows), width});
  scaling_aware_transpose(backend, {x.codes, x.scales, ends, codes.result(), scales.result()});
  return {std::move(codes), std::move(scales), kColumnBlock};
}

void weight_gradient(Backend& backend, const SavedMoeLayer& saved, const ScaledTensor& dy,
                     const ScaledTensor& x, const Result& dw) {
  const OwnedScaledTensor qdy = along_tokens(backend, saved, dy);
  const OwnedScaledTensor qx = along_tokens(backend, saved, x);
  const auto columns = [](const OwnedScaledTensor& q) {
    return ScaledTensor{transposed(q.codes()), q.scales(), kColumnBlock};
  };
  grouped_matmul_wgrad(backend, {columns(qdy), columns(qx), saved.plan.group_ends.operand(),
                                 saved.call.wgrad_sum, dw});
}

/// [rows, 1] as [rows].
Operand row_weights(const SavedMoeLayer& saved) {
  if (!saved.row_weights.given()) return {};
  Operand weights = saved.row_weights.operand();
  weights.rank = 1;
  return weights;
}

}  // namespace

void flow_activate(Backend& backend, const SavedMoeLayer& saved, BackendTensor& h,
                   OwnedScaledTensor& act) {
  const Index rows = saved.plan.rows;
  const Index width = saved.call.w1.extent[1];
  h = zeros(backend, Dtype::bf16, {rows, width});
  const OwnedScaledTensor w = weight(backend, saved.call.format, saved.call.w1);
  product(backend, saved, saved.u.view(), w.view(), h.result());
  act = rows_for(backend, saved.call.format, rows, features_of(saved.call, saved.call.w1));
  swiglu_quantize(backend, {h.operand(),
                            row_weights(saved),
                            {},
                            Dtype::f32,
                            act.result(),
                            f32_rule(kFlowBlockwise),
                            saved.call.gate});
}

void flow_second(Backend& backend, const SavedMoeLayer& saved, const OwnedScaledTensor& act,
                 const Result& out) {
  const OwnedScaledTensor w = weight(backend, saved.call.format, saved.call.w2);
  product(backend, saved, act.view(), w.view(), out);
}

void flow_backward(Backend& backend, const SavedMoeLayer& saved, const FlowBackward& op) {
  const MoeLayer& call = saved.call;
  const Index rows = saved.plan.rows;
  const Index width = call.w1.extent[1];
  BackendTensor dact = zeros(backend, Dtype::bf16, {rows, features_of(call, call.w1)});
  {
    const OwnedScaledTensor w = weight(backend, call.format, call.w2);
    product(backend, saved, op.dy.view(), transposed(w.view()), dact.result());
  }
  if (call.observe) call.observe("dact", dact.operand());
  if (op.dw2.given()) {
    weight_gradient(backend, saved, op.dy.view(), op.act.view(), op.dw2);
  }
  OwnedScaledTensor dh = rows_for(backend, saved.call.format, rows, width);
  swiglu_quantize_backward(backend, {op.h.operand(),
                                     row_weights(saved),
                                     dact.operand(),
                                     {},
                                     Dtype::f32,
                                     dh.result(),
                                     f32_rule(kFlowBlockwise),
                                     op.drow_weights,
                                     call.gate});
  if (call.observe) {
    call.observe("dh.codes", dh.codes());
    call.observe("dh.scales", dh.scales());
  }
  {
    const OwnedScaledTensor w = weight(backend, call.format, call.w1);
    product(backend, saved, dh.view(), transposed(w.view()), op.du);
  }
  if (op.dw1.given()) {
    weight_gradient(backend, saved, dh.view(), saved.u.view(), op.dw1);
  }
}

}  // namespace mxo
