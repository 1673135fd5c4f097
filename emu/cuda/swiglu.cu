// The gate activation and its gradients on the device.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/gate_estimate.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/cuda/row_sums.cuh"
#include "emu/reference/elementwise.h"
#include "emu/reference/gate_elements.h"
#include "ops/swiglu.h"

namespace mxo::cuda {
namespace {

constexpr int kNeighbours = 8;

/// Element (r, f) of the gate: of a plain one in few registers, of any other by its rule.
template <typename X>
struct Gate {
  static constexpr int kAtOnce = 4;
  Matrix<const X> x;
  Index width;

  __device__ float gated(Index r, Index f) const {
    return swiglu_gated(as_float(x(r, f)), as_float(x(r, width + f)));
  }
  __device__ HalvesColumns columns(Index f) const { return {f, width + f}; }
  __device__ SwigluGradient gradient(Index r, Index f, float g) const {
    return swiglu_gradient(as_float(x(r, f)), as_float(x(r, width + f)), g);
  }
};
template <typename X>
struct RuledGate {
  static constexpr int kAtOnce = 1;  // long code: four copies run slower (bench/RESULTS.md)
  Matrix<const X> x;
  Index width;
  GateRule rule;

  __device__ GateElement element(Index r, Index f) const {
    const HalvesColumns at = columns(f);
    return {rule, std::is_same_v<X, F16>, as_float(x(r, at.a)),
            at.b < 0 ? 1.0f : as_float(x(r, at.b))};
  }
  __device__ float gated(Index r, Index f) const { return element(r, f).gated(); }
  __device__ HalvesColumns columns(Index f) const {
    return columns_of_halves(rule.halves, f, width);
  }
  __device__ SwigluGradient gradient(Index r, Index f, float g) const {
    return element(r, f).gradient(g);
  }
};

/// Calls run(gate) with the gate of an operator.
template <typename Fn>
void visit_gate(const Operand& x, const GateRule& rule, Index width, Fn&& run) {
  visit_wide_float(x.dtype, [&](auto from) {
    using X = typename decltype(from)::type;
    if (rule == GateRule{}) {
      run(Gate<X>{x.as<const X, 2>(), width});
    } else {
      run(RuledGate<X>{x.as<const X, 2>(), width, rule});
    }
  });
}

template <typename Gate, typename Y>
struct Forward {
  static constexpr int kAtOnce = Gate::kAtOnce;
  Gate gate;
  TensorView<const float, 1> probs;
  bool weighted;
  Matrix<Y> y;

  __device__ void operator()(Index r, Index f) const {
    const float gated = gate.gated(r, f);
    y(r, f) = canonical<Y>(weighted ? gated * probs(r) : gated);
  }
};

template <typename Gate, typename Dy, typename Dx>
struct Gradients {
  static constexpr int kAtOnce = Gate::kAtOnce;
  Gate gate;
  Matrix<const Dy> dy;
  TensorView<const float, 1> probs;
  bool weighted;
  Matrix<Dx> dx;

  __device__ void operator()(Index r, Index f) const {
    const float d = as_float(dy(r, f));
    const SwigluGradient g = gate.gradient(r, f, weighted ? d * probs(r) : d);
    const HalvesColumns at = gate.columns(f);
    dx(r, at.a) = canonical<Dx>(g.da);
    if (at.b >= 0) dx(r, at.b) = canonical<Dx>(g.db);
  }
};

/// A term of dprobs: what the gate gave, times dy.
template <typename Gate, typename Dy>
struct ProbabilityTerm {
  static constexpr int kAtOnce = 2 * Gate::kAtOnce;
  Gate gate;
  Matrix<const Dy> dy;
  using Row = Index;
  __device__ Row row(Index r) const { return r; }
  __device__ float operator()(Row r, Index f) const {
    return gate.gated(r, f) * as_float(dy(r, f));
  }
};

/// Calls each(r, f) for every element of an [R, F] matrix, four rows a block.
template <typename Each>
__global__ void each_kernel(Index rows, Index columns, Each each) {
  constexpr int kRows = 4;
  const Index strips = ceil_div(columns, kThreads);
  const Index f = static_cast<Index>(blockIdx.x) % strips * kThreads + threadIdx.x;
  if (f >= columns) return;
#pragma unroll Each::kAtOnce
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

/// silu of the first half by the second, to bf16: eight neighbours a thread, blockIdx.x is the row.
template <typename X, bool Weighted>
__global__ void gate_packs_kernel(Matrix<const X> x, TensorView<const float, 1> probs,
                                  Matrix<BF16> y) {
  const Index r = blockIdx.x;
  const Index f = static_cast<Index>(blockIdx.y * blockDim.x + threadIdx.x) * kNeighbours;
  if (f >= y.extent[1]) return;
  Eight<X> a;
  Eight<X> b;
  a.load(&x(r, f));
  b.load(&x(r, y.extent[1] + f));
  const GateInputs<X, Weighted> in(a, b, Weighted ? probs(r) : 1.0f);
  *reinterpret_cast<uint4*>(&y(r, f)) = gate_in_bf16(in).word;
}

/// True if the call was taken: the plain gate of f32 or bf16 into bf16 where rows are whole words.
bool run_packs(cudaStream_t stream, const Swiglu& op) {
  const Index rows = op.y.extent[0];
  const Index width = op.y.extent[1];
  if (op.gate != GateRule{} || op.x.dtype == Dtype::f16 || op.y.dtype != Dtype::bf16 ||
      width % kNeighbours != 0 || width > kWidestPacked || !rows_aligned(op.x, 16) ||
      !rows_aligned(op.y, 16)) {
    return false;
  }
  if (rows == 0 || width == 0) return true;
  const PackedRows at(rows, width / kNeighbours, kThreads, 1);
  visit_f32_or_bf16(op.x.dtype, [&](auto from) {
    visit_weighted(op.probs, [&](auto weighted) {
      using X = typename decltype(from)::type;
      gate_packs_kernel<X, decltype(weighted)::value><<<at.blocks, at.threads, 0, stream>>>(
          op.x.as<const X, 2>(), op.probs.as<const float, 1>(), op.y.as<BF16, 2>());
    });
  });
  check_launch("swiglu");
  return true;
}

}  // namespace

void DeviceBackend::run(const Swiglu& op) {
  if (run_packs(stream(), op)) return;
  const Index width = op.y.extent[1];
  visit_gate(op.x, op.gate, width, [&](auto gate) {
    visit_wide_float(op.y.dtype, [&](auto to) {
      using Y = typename decltype(to)::type;
      launch_each(stream(), op.y.extent[0], width,
                  Forward<decltype(gate), Y>{gate, op.probs.as<const float, 1>(), op.probs.given(),
                                             op.y.as<Y, 2>()});
    });
  });
}

void DeviceBackend::run(const SwigluBackward& op) {
  const bool weighted = op.probs.given();
  const Index rows = op.dy.extent[0];
  const Index width = op.dy.extent[1];
  visit_gate(op.x, op.gate, width, [&](auto gate) {
    visit_wide_float(op.dy.dtype, [&](auto gradient) {
      using Dy = typename decltype(gradient)::type;
      const auto dy = op.dy.as<const Dy, 2>();
      visit_wide_float(op.dx.dtype, [&](auto to) {
        using Dx = typename decltype(to)::type;
        launch_each(stream(), rows, width,
                    Gradients<decltype(gate), Dy, Dx>{gate, dy, op.probs.as<const float, 1>(),
                                                      weighted, op.dx.as<Dx, 2>()});
      });
      if (weighted && rows > 0) {
        sum_rows(stream(), rows, width, ProbabilityTerm<decltype(gate), Dy>{gate, dy},
                 RowOfVector{op.dprobs.as<float, 1>()});
      }
    });
  });
}

}  // namespace mxo::cuda
