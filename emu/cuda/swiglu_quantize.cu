// swiglu_quantize and its gradients on the device: two steps, what is between them in memory of
// the backend.
#include "ops/swiglu_quantize.h"

#include "emu/cuda/device_backend.cuh"
#include "ops/backend_tensor.h"

namespace mxo::cuda {

void DeviceBackend::run_quantizer(const QuantizedResult& to, const Operand& x) {
  if (to.mx()) {
    run(to.quantize_of(x));
  } else {
    run(to.quantize_blockwise_of(x));
  }
}

void DeviceBackend::run(const SwigluQuantize& op) {
  BackendTensor y(*this, op.rounding, {op.x.extent[0], op.x.extent[1] / 2});
  run(Swiglu{op.x, op.probs, y.result()});
  run_quantizer(op.y, y.operand());
}

void DeviceBackend::run(const SwigluQuantizeBackward& op) {
  BackendTensor dx(*this, op.rounding, {op.x.extent[0], op.x.extent[1]});
  run(SwigluBackward{op.x, op.probs, op.dy, dx.result(), op.dprobs});
  run_quantizer(op.dx, dx.operand());
}

}  // namespace mxo::cuda
