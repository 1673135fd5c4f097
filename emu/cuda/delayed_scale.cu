// delayed_scale on the device: one block of threads.
#include "ops/delayed_scale.h"

#include "emu/cuda/device_backend.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/reference/elements.h"
#include "formats/delayed_scale.h"

namespace mxo::cuda {
namespace {

template <typename X>
__global__ void amax_kernel(Operand x, Index n, std::uint32_t* last) {
  const Index step = grid_threads();
  std::uint32_t mine = 0;
  for (Index i = grid_thread(); i < n; i += step) {
    mine = join_amax(mine, to_float(static_cast<const X*>(x.data)[device_offset(x, i)]),
                     NanRule::ignore);
  }
  atomicMax(last, mine);
}

__global__ void update_kernel(TensorView<const float, 1> history, TensorView<const float, 1> scale,
                              TensorView<float, 1> next, TensorView<float, 1> next_scale_out,
                              const std::uint32_t* joined, AmaxChoice choice, float max) {
  __shared__ std::uint32_t amax;
  const Index length = history.extent[0];
  const std::uint32_t last = join_amax(*joined, history(0), NanRule::ignore);
  if (threadIdx.x == 0) amax = last;
  __syncthreads();
  for (Index i = threadIdx.x; i < length; i += blockDim.x) {
    next(i) = last == 0         ? history(i)
              : i == 0          ? 0.0f
              : i + 1 == length ? __uint_as_float(last)
                                : history(i + 1);
    const bool counts = choice == AmaxChoice::max && i > 0 && last != 0;
    if (counts) atomicMax(&amax, join_amax(0, history(i), NanRule::ignore));
  }
  __syncthreads();
  if (threadIdx.x == 0) next_scale_out(0) = next_scale(__uint_as_float(amax), scale(0), max);
}

}  // namespace

void DeviceBackend::run(const DelayedScale& op) {
  const Scratch<std::uint32_t> last(*this, 1);
  check(cudaMemsetAsync(last.data(), 0, sizeof(std::uint32_t), stream()), "cudaMemsetAsync");
  if (op.x.given() && op.x.elements() > 0) {
    visit_wide_float(op.x.dtype, [&](auto tag) {
      using X = typename decltype(tag)::type;
      amax_kernel<X><<<blocks_for(op.x.elements()), kThreads, 0, stream()>>>(op.x, op.x.elements(),
                                                                             last.data());
    });
  }
  float max = 0.0f;
  visit_minifloat8(op.format,
                   [&](auto tag) { max = scaled_max<decltype(tag)::type::spec>(op.margin); });
  update_kernel<<<1, kThreads, 0, stream()>>>(
      op.history.as<const float, 1>(), op.scale.as<const float, 1>(),
      op.next_history.as<float, 1>(), op.next_scale.as<float, 1>(), last.data(), op.choice, max);
  check_launch("delayed_scale");
}

}  // namespace mxo::cuda
