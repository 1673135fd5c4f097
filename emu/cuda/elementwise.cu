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

/// One thread for each sum, rows ascending; loads run ahead of the chain of additions.
template <typename X, typename Sum>
__global__ void column_sum_kernel(Matrix<const X> x, Matrix<Sum> sum, Ends ends, bool given,
                                  bool whole) {
  constexpr int kAhead = 16;
  const Index outputs = sum.extent[0] * sum.extent[1];
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < outputs; i += step) {
    const Index s = i / sum.extent[1];
    const Index n = i % sum.extent[1];
    const Index groups = ends.extent[0];
    Index row = whole || !given ? 0 : start_of(ends, s);
    Index past = x.extent[0];
    if (given) past = whole ? (groups > 0 ? ends(groups - 1) : 0) : ends(s);
    row = max(row, Index{0});
    past = min(past, x.extent[0]);
    float total = 0.0f;
    for (; row + kAhead <= past; row += kAhead) {
      float value[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) value[a] = as_float(x(row + a, n));
#pragma unroll
      for (int a = 0; a < kAhead; ++a) total += value[a];
    }
    for (; row < past; ++row) total += as_float(x(row, n));
    sum(s, n) = canonical<Sum>(total);
  }
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
    column_sum_kernel<<<blocks_for(op.sum.elements(), 64), 64, 0, stream()>>>(
        x, sum, op.group_ends.as<const std::int32_t, 1>(), given, op.sum.rank == 1);
  });
  check_launch("column_sum");
}

}  // namespace mxo::cuda
