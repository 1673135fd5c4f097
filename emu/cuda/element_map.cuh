// out[i] = convert(in[i]) over two views of one shape.
#pragma once

#include "emu/cuda/launch.cuh"

namespace mxo::cuda {

template <int N, typename From, typename To, typename Convert>
__global__ void map_packs_kernel(const From* in, To* out, Index packs, Convert convert) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < packs; i += step) {
    const auto x = reinterpret_cast<const Pack<From, N>*>(in)[i];
    Pack<To, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) y.v[j] = convert(x.v[j]);
    reinterpret_cast<Pack<To, N>*>(out)[i] = y;
  }
}

template <typename From, typename To, typename Convert>
__global__ void map_strided_kernel(Operand in, Result out, Index n, Convert convert) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < n; i += step) {
    static_cast<To*>(out.data)[device_offset(out, i)] =
        convert(static_cast<const From*>(in.data)[device_offset(in, i)]);
  }
}

template <typename From, typename To, typename Convert>
void map_elements(cudaStream_t stream, const Operand& in, const Result& out, Convert convert) {
  constexpr int kNeighbours = 8;
  const Index n = in.elements();
  if (n == 0) return;
  const bool packs = in.contiguous() && out.contiguous() && aligned(in, 16) && aligned(out, 16) &&
                     n % kNeighbours == 0;
  if (packs) {
    map_packs_kernel<kNeighbours><<<blocks_for(n / kNeighbours), kThreads, 0, stream>>>(
        static_cast<const From*>(in.data), static_cast<To*>(out.data), n / kNeighbours, convert);
  } else {
    map_strided_kernel<From, To><<<blocks_for(n), kThreads, 0, stream>>>(in, out, n, convert);
  }
  check_launch("map_elements");
}

}  // namespace mxo::cuda
