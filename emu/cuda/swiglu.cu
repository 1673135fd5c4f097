// The gate activation and its gradients on the device.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/cuda/row_sums.cuh"
#include "emu/reference/elementwise.h"
#include "emu/reference/swiglu_elements.h"
#include "ops/swiglu.h"

namespace mxo::cuda {
namespace {

template <typename X, typename Y>
struct Forward {
  Matrix<const X> x;
  TensorView<const float, 1> probs;
  bool weighted;
  Matrix<Y> y;

  __device__ void operator()(Index r, Index f) const {
    const float gated = swiglu_gated(as_float(x(r, f)), as_float(x(r, y.extent[1] + f)));
    y(r, f) = canonical<Y>(weighted ? gated * probs(r) : gated);
  }
};

template <typename X, typename Dy, typename Dx>
struct Gradients {
  Matrix<const X> x;
  Matrix<const Dy> dy;
  TensorView<const float, 1> probs;
  bool weighted;
  Matrix<Dx> dx;

  __device__ void operator()(Index r, Index f) const {
    const Index width = dy.extent[1];
    const float d = as_float(dy(r, f));
    const SwigluGradient g =
        swiglu_gradient(as_float(x(r, f)), as_float(x(r, width + f)), weighted ? d * probs(r) : d);
    dx(r, f) = canonical<Dx>(g.da);
    dx(r, width + f) = canonical<Dx>(g.db);
  }
};

/// A term of dprobs: ((a * s) * b) * dy.
template <typename X, typename Dy>
struct ProbabilityTerm {
  Matrix<const X> x;
  Matrix<const Dy> dy;
  __device__ float operator()(Index r, Index f) const {
    return swiglu_gated(as_float(x(r, f)), as_float(x(r, dy.extent[1] + f))) * as_float(dy(r, f));
  }
};

/// Calls each(r, f) for every element of an [R, F] matrix, four rows a block.
template <typename Each>
__global__ void each_kernel(Index rows, Index columns, Each each) {
  constexpr int kRows = 4;
  const Index strips = ceil_div(columns, kThreads);
  const Index f = static_cast<Index>(blockIdx.x) % strips * kThreads + threadIdx.x;
  if (f >= columns) return;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const Index r = static_cast<Index>(blockIdx.x) / strips * kRows + i;
    if (r < rows) each(r, f);
  }
}

template <typename Each>
void launch_each(cudaStream_t stream, Index rows, Index columns, const Each& each) {
  if (rows == 0 || columns == 0) return;
  const Index blocks = ceil_div(rows, 4) * ceil_div(columns, kThreads);
  each_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(rows, columns, each);
  check_launch("swiglu");
}

}  // namespace

void DeviceBackend::run(const Swiglu& op) {
  if (op.gate != GateRule{}) lacks("swiglu of this gate");
  visit_f32_or_bf16(op.x.dtype, [&](auto from) {
    visit_f32_or_bf16(op.y.dtype, [&](auto to) {
      using X = typename decltype(from)::type;
      using Y = typename decltype(to)::type;
      launch_each(stream(), op.y.extent[0], op.y.extent[1],
                  Forward<X, Y>{op.x.as<const X, 2>(), op.probs.as<const float, 1>(),
                                op.probs.given(), op.y.as<Y, 2>()});
    });
  });
}

void DeviceBackend::run(const SwigluBackward& op) {
  if (op.gate != GateRule{}) lacks("swiglu_backward of this gate");
  const bool weighted = op.probs.given();
  const Index rows = op.dy.extent[0];
  const Index width = op.dy.extent[1];
  visit_f32_or_bf16(op.x.dtype, [&](auto from) {
    visit_f32_or_bf16(op.dy.dtype, [&](auto gradient) {
      using X = typename decltype(from)::type;
      using Dy = typename decltype(gradient)::type;
      const auto x = op.x.as<const X, 2>();
      const auto dy = op.dy.as<const Dy, 2>();
      visit_f32_or_bf16(op.dx.dtype, [&](auto to) {
        using Dx = typename decltype(to)::type;
        launch_each(stream(), rows, width,
                    Gradients<X, Dy, Dx>{x, dy, op.probs.as<const float, 1>(), weighted,
                                         op.dx.as<Dx, 2>()});
      });
      if (weighted && rows > 0) {
        sum_rows(stream(), rows, width, ProbabilityTerm<X, Dy>{x, dy},
                 RowOfVector{op.dprobs.as<float, 1>()});
      }
    });
  });
}

}  // namespace mxo::cuda
