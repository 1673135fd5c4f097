// Which sums the products of the CUDA backend give.
#include "emu/cuda/device_backend.cuh"

namespace mxo::cuda {

bool DeviceBackend::honours(const Accumulation&) const { return false; }

}  // namespace mxo::cuda
