// Products in blocks of 128 whose operands over tokens are made by moving exponents.
#include "ops/moe_flow.h"

#include "ops/moe_steps.h"
#include "ops/quantize_f32_scales.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu_quantize.h"

namespace mxo {
namespace {

FlowRows rows_for(Backend& backend, Index rows, Index width) {
  return {BackendTensor(backend, Dtype::e4m3, {rows, width}),
          BackendTensor(backend, Dtype::f32, {rows, ceil_div(width, kScaledBlock)})};
}

/// 1x128 blocks by the rule of the pipeline.
QuantizedResult in_blocks(FlowRows& rows) {
  QuantizedResult to;
  to.codes = rows.codes.result();
  to.scales = rows.scales.result();
  to.rule = kFlowBlockwise;
  return to;
}

/// w [E, N, K] in 128x128 blocks.
FlowRows weight(Backend& backend, const Operand& w) {
  FlowRows q{BackendTensor(backend, Dtype::e4m3, w.extent, 3),
             BackendTensor(backend, Dtype::f32,
                           {w.extent[0], ceil_div(w.extent[1], kScaledBlock),
                            ceil_div(w.extent[2], kScaledBlock)})};
  quantize_blockwise(
      backend,
      {w, {}, q.codes.result(), q.scales.result(), BlockShape::square_128x128, kFlowBlockwise});
  return q;
}

/// y = x w^T, or x w where `w` is given transposed.
void product(Backend& backend, const SavedMoeLayer& saved, const Operand& codes,
             const Operand& scales, const Operand& w_codes, const Operand& w_scales,
             const Result& y) {
  grouped_matmul(backend, {codes, scales, w_codes, w_scales, saved.plan.group_ends.operand(),
                           Scaling::blockwise, saved.call.sum, y});
}

/// Tiles of 128 rows in all groups, or the most there can be where the host cannot see the ends.
Index most_tiles(const Backend& backend, const SavedMoeLayer& saved) {
  const Operand ends = saved.plan.group_ends.operand();
  return backend.reads_host_memory() ? blocks_of_groups(ends)
                                     : saved.plan.rows / kScaledBlock + ends.extent[0];
}

/// Row-wise codes scaled along tokens instead: codes [K, R], scales [tiles, K].
FlowRows along_tokens(Backend& backend, const SavedMoeLayer& saved, const Operand& codes,
                      const Operand& scales) {
  const Operand ends = saved.plan.group_ends.operand();
  const Index width = codes.extent[1];
  FlowRows turned{BackendTensor(backend, Dtype::e4m3, {width, codes.extent[0]}),
                  BackendTensor(backend, Dtype::f32, {most_tiles(backend, saved), width})};
  scaling_aware_transpose(backend,
                          {codes, scales, ends, turned.codes.result(), turned.scales.result()});
  return turned;
}

void weight_gradient(Backend& backend, const SavedMoeLayer& saved, const FlowRows& dy,
                     const FlowRows& x, const Result& dw) {
  grouped_matmul_wgrad(
      backend, {transposed(dy.codes.operand()), dy.scales.operand(), transposed(x.codes.operand()),
                x.scales.operand(), saved.plan.group_ends.operand(), Scaling::blockwise,
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

void flow_activate(Backend& backend, const SavedMoeLayer& saved, BackendTensor& h, FlowRows& act) {
  const Index rows = saved.plan.rows;
  const Index width = saved.call.w1.extent[1];
  h = zeros(backend, Dtype::bf16, {rows, width});
  const FlowRows w = weight(backend, saved.call.w1);
  product(backend, saved, saved.u.codes.operand(), saved.u.scales.operand(), w.codes.operand(),
          w.scales.operand(), h.result());
  act = rows_for(backend, rows, width / 2);
  swiglu_quantize(backend, {h.operand(), row_weights(saved), Dtype::f32, in_blocks(act)});
}

void flow_second(Backend& backend, const SavedMoeLayer& saved, const FlowRows& act,
                 const Result& out) {
  const FlowRows w = weight(backend, saved.call.w2);
  product(backend, saved, act.codes.operand(), act.scales.operand(), w.codes.operand(),
          w.scales.operand(), out);
}

void flow_backward(Backend& backend, const SavedMoeLayer& saved, const FlowBackward& op) {
  const MoeLayer& call = saved.call;
  const Index rows = saved.plan.rows;
  const Operand dy = op.dy.codes.operand();
  const Operand dy_scales = op.dy.scales.operand();
  const Index width = call.w1.extent[1];
  BackendTensor dact = zeros(backend, Dtype::bf16, {rows, width / 2});
  {
    const FlowRows w = weight(backend, call.w2);
    product(backend, saved, dy, dy_scales, transposed(w.codes.operand()),
            transposed(w.scales.operand()), dact.result());
  }
  if (call.observe) call.observe("dact", dact.operand());
  if (op.dw2.given()) {
    weight_gradient(backend, saved, along_tokens(backend, saved, dy, dy_scales),
                    along_tokens(backend, saved, op.act.codes.operand(), op.act.scales.operand()),
                    op.dw2);
  }
  FlowRows dh = rows_for(backend, rows, width);
  swiglu_quantize_backward(backend, {op.h.operand(), row_weights(saved), dact.operand(), Dtype::f32,
                                     in_blocks(dh), op.drow_weights});
  if (call.observe) {
    call.observe("dh.codes", dh.codes.operand());
    call.observe("dh.scales", dh.scales.operand());
  }
  {
    const FlowRows w = weight(backend, call.w1);
    product(backend, saved, dh.codes.operand(), dh.scales.operand(), transposed(w.codes.operand()),
            transposed(w.scales.operand()), op.du);
  }
  if (op.dw1.given()) {
    weight_gradient(
        backend, saved, along_tokens(backend, saved, dh.codes.operand(), dh.scales.operand()),
        along_tokens(backend, saved, saved.u.codes.operand(), saved.u.scales.operand()), op.dw1);
  }
}

}  // namespace mxo
