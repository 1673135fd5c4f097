// swiglu_quantize and its gradients on the device: two steps, what is between them in memory of
// the backend.
#include "ops/swiglu_quantize.h"

#include "emu/cuda/device_backend.cuh"
#include "ops/backend_tensor.h"

namespace mxo::cuda {

void DeviceBackend::run(const SwigluQuantize& op) {
  BackendTensor y(*this, op.rounding, {op.x.extent[0], op.x.extent[1] / halves_of(op.gate)});
  run(Swiglu{op.x, op.probs, y.result(), op.gate});
  run(Quantize{y.operand(), op.group_ends, op.to, op.rule});
}

void DeviceBackend::run(const SwigluQuantizeBackward& op) {
  BackendTensor dx(*this, op.rounding, {op.x.extent[0], op.x.extent[1]});
  run(SwigluBackward{op.x, op.probs, op.dy, dx.result(), op.dprobs, op.gate});
  run(Quantize{dx.operand(), op.group_ends, op.to, op.rule});
}

}  // namespace mxo::cuda
