// cast, add_bias and column_sum on the device.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/element_map.cuh"
#include "emu/cuda/group_ends.cuh"
#include "emu/reference/elementwise.h"
#include "ops/elementwise.h"

namespace mxo::cuda {
namespace {

template <typename To>
struct Canonical {
  template <typename From>
  __device__ To operator()(From x) const {
    return canonical<To>(as_float(x));
  }
};

/// Without ends every row belongs to group 0.
struct RowGroups {
  Ends ends;
  bool given;
  bool shared;  // one vector for all groups
  __device__ Index operator()(Index row) const {
    const Index g = given ? group_of(ends, row) : 0;
    if (given && g == ends.extent[0]) return -1;
    return shared ? 0 : g;
  }
};

/// A block of threads takes 4 rows of 256 columns each.
constexpr int kRows = 4;

template <typename Y, typename Bias, typename Out>
__global__ void add_bias_kernel(Matrix<const Y> y, Matrix<const Bias> bias, Matrix<Out> out,
                                RowGroups groups) {
  const Index strips = ceil_div(y.extent[1], kThreads);
  const Index n = static_cast<Index>(blockIdx.x) % strips * kThreads + threadIdx.x;
  if (n >= y.extent[1]) return;
  for (int i = 0; i < kRows; ++i) {
    const Index row = static_cast<Index>(blockIdx.x) / strips * kRows + i;
    if (row >= y.extent[0]) return;
    const Index b = groups(row);
    if (b >= 0) out(row, n) = canonical<Out>(as_float(y(row, n)) + as_float(bias(b, n)));
  }
}

/// Of a block, in which one warp adds, a lane each, and the others load ahead.
constexpr int kSumColumns = 32;
constexpr int kSumRows = 128;
constexpr int kSumThreads = 1024;

/// Each sum in one chain, rows ascending.
template <typename X, typename Sum>
__global__ void __launch_bounds__(kSumThreads)
    column_sum_kernel(Matrix<const X> x, Matrix<Sum> sum, Ends ends, bool given, bool whole) {
  __shared__ float tile[2][kSumRows][kSumColumns];
  const Index strips = ceil_div(sum.extent[1], kSumColumns);
  const Index s = blockIdx.x / strips;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Index n = blockIdx.x % strips * kSumColumns + lane;
  const bool there = n < sum.extent[1];
  const Index groups = ends.extent[0];
  Index row = whole || !given ? 0 : start_of(ends, s);
  Index past = x.extent[0];
  if (given) past = whole ? (groups > 0 ? ends(groups - 1) : 0) : ends(s);
  row = max(row, Index{0});
  past = min(past, x.extent[0]);
  const auto load = [&](int half, Index from) {
    for (Index r = warp - 1; r < min(Index{kSumRows}, past - from); r += kSumThreads / 32 - 1) {
      if (there) tile[half][r][lane] = as_float(x(from + r, n));
    }
  };
  if (warp > 0) load(0, row);
  float total = 0.0f;
  for (int half = 0; row < past; row += kSumRows, half ^= 1) {
    __syncthreads();
    if (warp > 0) {
      load(half ^ 1, row + kSumRows);
      continue;
    }
    const int rows = static_cast<int>(min(Index{kSumRows}, past - row));
#pragma unroll 8
    for (int r = 0; r < rows; ++r) total += tile[half][r][lane];
  }
  if (warp == 0 && there) sum(s, n) = canonical<Sum>(total);
}

}  // namespace

void DeviceBackend::run(const Cast& op) {
  visit_wide_float(op.x.dtype, [&](auto from) {
    visit_wide_float(op.y.dtype, [&](auto to) {
      using To = typename decltype(to)::type;
      map_elements<typename decltype(from)::type, To>(stream(), op.x, op.y, Canonical<To>{});
    });
  });
}

void DeviceBackend::run(const AddBias& op) {
  const Index rows = op.y.extent[0];
  if (op.y.elements() == 0) return;
  const bool given = op.group_ends.given();
  if (given) check_group_ends(*this, op.group_ends, rows);
  const RowGroups groups{op.group_ends.as<const std::int32_t, 1>(), given, op.bias.rank == 1};
  const Index blocks = ceil_div(rows, kRows) * ceil_div(op.y.extent[1], kThreads);
  visit_addition(op, [&](const auto& y, const auto& bias, const auto& out) {
    add_bias_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(y, bias, out, groups);
  });
  check_launch("add_bias");
}

void DeviceBackend::run(const ColumnSum& op) {
  const bool given = op.group_ends.given();
  if (given) check_group_ends(*this, op.group_ends, op.x.extent[0]);
  if (op.sum.elements() == 0) return;
  visit_sum(op, [&](const auto& x, const auto& sum) {
    const Index blocks = sum.extent[0] * ceil_div(sum.extent[1], kSumColumns);
    column_sum_kernel<<<static_cast<unsigned>(blocks), kSumThreads, 0, stream()>>>(
        x, sum, op.group_ends.as<const std::int32_t, 1>(), given, op.sum.rank == 1);
  });
  check_launch("column_sum");
}

}  // namespace mxo::cuda
