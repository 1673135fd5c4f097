// approximate on the device: the functions in integers, as on the host.
#include "emu/reference/approximate.h"

#include "emu/cuda/device_backend.cuh"
#include "emu/cuda/element_map.cuh"

namespace mxo::cuda {
namespace {

template <typename Function>
__global__ void divide_kernel(Operand x, Operand b, Result y, Index n, Function function) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < n; i += step) {
    static_cast<float*>(y.data)[device_offset(y, i)] =
        function(static_cast<const float*>(x.data)[device_offset(x, i)],
                 static_cast<const float*>(b.data)[device_offset(b, i)]);
  }
}

}  // namespace

void DeviceBackend::run(const Approximate& op) {
  const Index n = op.x.elements();
  if (n == 0) return;
  visit_on_chip(op, [&](auto function) {
    if constexpr (decltype(function)::kDivides) {
      divide_kernel<<<blocks_for(n), kThreads, 0, stream()>>>(op.x, op.b, op.y, n, function);
      check_launch("approximate");
    } else {
      map_elements<float, float>(stream(), op.x, op.y, function);
    }
  });
}

}  // namespace mxo::cuda
