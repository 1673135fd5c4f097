// swiglu_quantize and its gradients: the two steps, one after the other.
#include "ops/swiglu_quantize.h"

#include "emu/reference/reference_backend.h"
#include "formats/tensor.h"

namespace mxo {

void ReferenceBackend::run(const SwigluQuantize& op) {
  Tensor y(op.rounding, {op.x.extent[0], op.x.extent[1] / 2});
  run(Swiglu{op.x, op.probs, y.result()});
  run_quantizer(op.y, y.operand());
}

void ReferenceBackend::run(const SwigluQuantizeBackward& op) {
  Tensor dx(op.rounding, {op.x.extent[0], op.x.extent[1]});
  run(SwigluBackward{op.x, op.probs, op.dy, dx.result(), op.dprobs});
  run_quantizer(op.dx, dx.operand());
}

void ReferenceBackend::run_quantizer(const QuantizedResult& to, const Operand& x) {
  if (to.mx()) {
    run(to.quantize_of(x));
  } else {
    run(to.quantize_blockwise_of(x));
  }
}

}  // namespace mxo
