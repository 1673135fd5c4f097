// The router's matrix gradients on the device: f32 products whose sums run in the stated order.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/reference/elementwise.h"
#include "ops/router_gradients.h"

namespace mxo::cuda {
namespace {

constexpr int kTile = 64;  // outputs of a block, each way
constexpr int kDepth = 16;
constexpr int kOwn = 4;  // outputs of a thread, each way

/// c(i, j) = sum over k ascending of fl(a(i, k) * b(k, j)), from +0, never fused.  What lies
/// outside is read as zeros: an accumulator that starts at +0 stays what it is when +0 is added.
template <typename B>
__global__ void __launch_bounds__(kThreads)
    ordered_product_kernel(Matrix<const float> a, Matrix<const B> b, Matrix<float> c) {
  __shared__ float left[kDepth][kTile + 1];
  __shared__ float right[kDepth][kTile + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const Index tiles = ceil_div(c.extent[1], kTile);
  const Index i0 = static_cast<Index>(blockIdx.x) / tiles * kTile;
  const Index j0 = static_cast<Index>(blockIdx.x) % tiles * kTile;
  const int own_i = thread / (kTile / kOwn);
  const int own_j = thread % (kTile / kOwn);
  float sum[kOwn][kOwn] = {};
  for (Index k0 = 0; k0 < a.extent[1]; k0 += kDepth) {
#pragma unroll
    for (int n = thread; n < kTile * kDepth; n += kThreads) {
      const Index i = i0 + n / kDepth;
      const Index k = k0 + n % kDepth;
      left[n % kDepth][n / kDepth] = i < c.extent[0] && k < a.extent[1] ? a(i, k) : 0.0f;
      const Index j = j0 + n % kTile;
      const Index row = k0 + n / kTile;
      right[n / kTile][n % kTile] =
          j < c.extent[1] && row < a.extent[1] ? to_float(b(row, j)) : 0.0f;
    }
    __syncthreads();
    const int depth = static_cast<int>(min(a.extent[1] - k0, Index{kDepth}));
    for (int k = 0; k < depth; ++k) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          sum[i][j] += left[k][own_i + i * (kTile / kOwn)] * right[k][own_j + j * (kTile / kOwn)];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const Index row = i0 + own_i + i * (kTile / kOwn);
      const Index column = j0 + own_j + j * (kTile / kOwn);
      if (row < c.extent[0] && column < c.extent[1]) c(row, column) = canonical<float>(sum[i][j]);
    }
  }
}

template <typename T>
Matrix<T> turned(const Matrix<T>& m) {
  return {m.data, {m.extent[1], m.extent[0]}, {m.stride[1], m.stride[0]}};
}

void multiply(cudaStream_t stream, const Matrix<const float>& a, const Operand& b,
              const Result& out) {
  if (out.elements() == 0) return;
  const auto c = out.as<float, 2>();
  const Index blocks = ceil_div(c.extent[0], kTile) * ceil_div(c.extent[1], kTile);
  visit_f32_or_bf16(b.dtype, [&](auto type) {
    using B = typename decltype(type)::type;
    ordered_product_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        a, b.as<const B, 2>(), c);
  });
  check_launch("router_gradients");
}

}  // namespace

void DeviceBackend::run(const RouterGradients& op) {
  const auto dlogits = op.dlogits.as<const float, 2>();
  if (op.dx.given()) multiply(stream(), dlogits, op.router, op.dx);
  if (op.drouter.given()) multiply(stream(), turned(dlogits), op.x, op.drouter);
}

}  // namespace mxo::cuda
