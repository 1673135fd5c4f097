// The router's matrix gradients on the device: f32 products whose sums run in the stated order.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/few_experts.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/reference/elementwise.h"
#include "ops/router_gradients.h"

namespace mxo::cuda {
namespace {

/// Outputs of a block and of a thread, each way, and how many terms a block reads at a time.
template <int kTileRows, int kTileColumns, int kOwnRows, int kOwnColumns, int kTerms>
struct Tile {
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr int kOwnI = kOwnRows;
  static constexpr int kOwnJ = kOwnColumns;
  static constexpr int kDepth = kTerms;
  static constexpr int kAcross = kTileColumns / kOwnColumns;  // threads
  static_assert(kTileRows / kOwnRows * kAcross == kThreads);
  static_assert(kTileRows * kTerms % kThreads == 0 && kTileColumns * kTerms % kThreads == 0);
};
using Square = Tile<64, 64, 4, 4, 16>;
using Flat = Tile<8, 32, 1, 1, 64>;  // for few rows and long sums

/// c(i, j) = sum over k ascending of fl(a(i, k) * b(k, j)), from +0, never fused.  What lies
/// outside is read as zeros: an accumulator that starts at +0 stays what it is when +0 is added.
/// The next terms are on their way while those before are added.
template <typename Of, typename B>
__global__ void __launch_bounds__(kThreads)
    ordered_product_kernel(Matrix<const float> a, Matrix<const B> b, Matrix<float> c) {
  constexpr int kDepth = Of::kDepth;
  constexpr int kDown = Of::kRows / Of::kOwnI;
  __shared__ float left[kDepth][Of::kRows + 1];
  __shared__ float right[kDepth][Of::kColumns + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const Index tiles = ceil_div(c.extent[1], Of::kColumns);
  const Index i0 = static_cast<Index>(blockIdx.x) / tiles * Of::kRows;
  const Index j0 = static_cast<Index>(blockIdx.x) % tiles * Of::kColumns;
  const int own_i = thread / Of::kAcross;
  const int own_j = thread % Of::kAcross;
  float sum[Of::kOwnI][Of::kOwnJ] = {};
  constexpr int kLeft = Of::kRows * kDepth / kThreads;
  constexpr int kRight = Of::kColumns * kDepth / kThreads;
  float next_left[kLeft];
  B next_right[kRight];
  // Neighbouring threads read what lies side by side.
  const bool down = a.stride[0] == 1;
  const auto row_of = [&](int n) { return down ? n % Of::kRows : n / kDepth; };
  const auto term_of = [&](int n) { return down ? n / Of::kRows : n % kDepth; };
  const auto fetch = [&](Index k0) {
#pragma unroll
    for (int at = 0; at < kLeft; ++at) {
      const int n = thread + at * kThreads;
      const Index i = i0 + row_of(n);
      const Index k = k0 + term_of(n);
      next_left[at] = i < c.extent[0] && k < a.extent[1] ? a(i, k) : 0.0f;
    }
#pragma unroll
    for (int at = 0; at < kRight; ++at) {
      const int n = thread + at * kThreads;
      const Index j = j0 + n % Of::kColumns;
      const Index k = k0 + n / Of::kColumns;
      next_right[at] = j < c.extent[1] && k < a.extent[1] ? b(k, j) : B{};
    }
  };
  fetch(0);
  for (Index k0 = 0; k0 < a.extent[1]; k0 += kDepth) {
#pragma unroll
    for (int at = 0; at < kLeft; ++at) {
      const int n = thread + at * kThreads;
      left[term_of(n)][row_of(n)] = next_left[at];
    }
#pragma unroll
    for (int at = 0; at < kRight; ++at) {
      const int n = thread + at * kThreads;
      right[n / Of::kColumns][n % Of::kColumns] = to_float(next_right[at]);
    }
    __syncthreads();
    fetch(k0 + kDepth);
#pragma unroll 16
    for (int k = 0; k < kDepth; ++k) {  // past the end there are zeros
#pragma unroll
      for (int i = 0; i < Of::kOwnI; ++i) {
#pragma unroll
        for (int j = 0; j < Of::kOwnJ; ++j) {
          sum[i][j] += left[k][own_i + i * kDown] * right[k][own_j + j * Of::kAcross];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < Of::kOwnI; ++i) {
#pragma unroll
    for (int j = 0; j < Of::kOwnJ; ++j) {
      const Index row = i0 + own_i + i * kDown;
      const Index column = j0 + own_j + j * Of::kAcross;
      if (row < c.extent[0] && column < c.extent[1]) c(row, column) = canonical<float>(sum[i][j]);
    }
  }
}

template <typename T>
Matrix<T> turned(const Matrix<T>& m) {
  return {m.data, {m.extent[1], m.extent[0]}, {m.stride[1], m.stride[0]}};
}

template <typename Of>
void multiply(cudaStream_t stream, const Matrix<const float>& a, const Operand& b,
              const Result& out) {
  if (out.elements() == 0) return;
  const auto c = out.as<float, 2>();
  const Index blocks = ceil_div(c.extent[0], Of::kRows) * ceil_div(c.extent[1], Of::kColumns);
  visit_wide_float(b.dtype, [&](auto type) {
    using B = typename decltype(type)::type;
    ordered_product_kernel<Of>
        <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a, b.as<const B, 2>(), c);
  });
  check_launch("router_gradients");
}

void multiply_few_terms(cudaStream_t stream, const Matrix<const float>& a, const Operand& b,
                        const Result& out) {
  const auto c = out.as<float, 2>();
  const dim3 blocks(static_cast<unsigned>(ceil_div(c.extent[0], kRowsOfFewTerms)),
                    static_cast<unsigned>(ceil_div(c.extent[1], 4 * kThreads)));
  visit_wide_float(b.dtype, [&](auto type) {
    using B = typename decltype(type)::type;
    few_terms_kernel<<<blocks, kThreads, 0, stream>>>(a, b.as<const B, 2>(), c);
  });
  check_launch("router_gradients");
}

void multiply_few_rows(cudaStream_t stream, const Matrix<const float>& a, const Operand& b,
                       const Result& out) {
  const auto c = out.as<float, 2>();
  visit_wide_float(b.dtype, [&](auto type) {
    using B = typename decltype(type)::type;
    using Of = LongSums<B>;
    const dim3 blocks(static_cast<unsigned>(ceil_div(c.extent[1], Of::kColumns)),
                      static_cast<unsigned>(ceil_div(c.extent[0], kFewExperts)));
    few_rows_kernel<<<blocks, Of::kThreads, 0, stream>>>(a, b.as<const B, 2>(), c);
  });
  check_launch("router_gradients");
}

}  // namespace

void DeviceBackend::run(const RouterGradients& op) {
  const auto dlogits = op.dlogits.as<const float, 2>();
  if (op.dx.given() && op.dx.elements() > 0) {
    if (dlogits.extent[1] <= kFewExperts && rows_aligned(op.dx, 16)) {
      multiply_few_terms(stream(), dlogits, op.router, op.dx);
    } else {
      multiply<Square>(stream(), dlogits, op.router, op.dx);
    }
  }
  if (!op.drouter.given() || op.drouter.elements() == 0) return;
  if (dlogits.extent[1] <= 2 * kFewExperts && rows_aligned(op.dlogits, 16) &&
      rows_aligned(op.x, 16)) {
    return multiply_few_rows(stream(), dlogits, op.x, op.drouter);
  }
  const bool flat = dlogits.extent[1] <= 2 * Flat::kRows;
  (flat ? multiply<Flat> : multiply<Square>)(stream(), turned(dlogits), op.x, op.drouter);
}

}  // namespace mxo::cuda
