// swiglu_quantize and its gradients on the device: two steps, what is between them in memory of
// the backend.
#include "ops/swiglu_quantize.h"

#include "emu/cuda/device_backend.cuh"
#include "ops/backend_tensor.h"

namespace mxo::cuda {

void DeviceBackend::run(const SwigluQuantize& op) {
  if (op.gate != GateRule{}) lacks("swiglu_quantize of this gate");
  BackendTensor y(*this, op.rounding, {op.x.extent[0], op.x.extent[1] / 2});
  run(Swiglu{op.x, op.probs, y.result()});
  run(Quantize{y.operand(), op.group_ends, op.to, op.rule});
}

void DeviceBackend::run(const SwigluQuantizeBackward& op) {
  if (op.gate != GateRule{}) lacks("swiglu_quantize_backward of this gate");
  BackendTensor dx(*this, op.rounding, {op.x.extent[0], op.x.extent[1]});
  run(SwigluBackward{op.x, op.probs, op.dy, dx.result(), op.dprobs});
  run(Quantize{dx.operand(), op.group_ends, op.to, op.rule});
}

}  // namespace mxo::cuda
