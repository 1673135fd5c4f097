// swiglu_quantize and its gradients: the two steps, one after the other.
#include "ops/swiglu_quantize.h"

#include "emu/reference/reference_backend.h"
#include "formats/tensor.h"

namespace mxo {

void ReferenceBackend::run(const SwigluQuantize& op) {
  Tensor y(op.rounding, {op.x.extent[0], op.x.extent[1] / halves_of(op.gate)});
  run(Swiglu{op.x, op.probs, y.result(), op.gate});
  run(Quantize{y.operand(), op.group_ends, op.to, op.rule});
}

void ReferenceBackend::run(const SwigluQuantizeBackward& op) {
  Tensor dx(op.rounding, {op.x.extent[0], op.x.extent[1]});
  run(SwigluBackward{op.x, op.probs, op.dy, dx.result(), op.dprobs, op.gate});
  run(Quantize{dx.operand(), op.group_ends, op.to, op.rule});
}

}  // namespace mxo
