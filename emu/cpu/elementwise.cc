// cast, add_bias and column_sum, threaded over rows or columns; adjacent f32 and bf16 through the
// kernels, with a weight of 1.
#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/reference/elementwise.h"

namespace mxo::cpu {
namespace {

/// Below this, a second thread costs more than it saves.
constexpr Index kThreadElements = Index{32} << 10;
/// Columns whose sums stay in L1 while rows are streamed.
constexpr Index kSumColumns = 256;
constexpr Index kStrip = 1024;  ///< elements of a row at a time

int useful_threads(Index elements, int threads) {
  return static_cast<int>(std::clamp<Index>(elements / kThreadElements, 1, threads));
}

template <typename T>
constexpr int kIndexOf = std::is_same_v<T, float> ? 0 : 1;  // float_index

void cast_by(FloatKernels::Scale& scale, const Operand& x, const Result& y, int threads) {
  const Index n = x.elements();
  const auto* from = static_cast<const std::byte*>(x.data);
  auto* to = static_cast<std::byte*>(y.data);
  const auto from_size = static_cast<Index>(size_of(x.dtype));
  const auto to_size = static_cast<Index>(size_of(y.dtype));
  const Index strips = ceil_div(n, kThreadElements);
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index s = 0; s < strips; ++s) {
    const Index i = s * kThreadElements;
    scale(from + i * from_size, std::min(kThreadElements, n - i), 1.0f, to + i * to_size);
  }
}

template <typename From, typename To>
void cast_all(const From* x, To* y, Index n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < n; ++i) y[i] = rounded<To>(to_float(x[i]));
}

/// One row of out = y + bias, all adjacent.
template <typename Y, typename Bias, typename Out>
void add_adjacent(const FloatKernels& kernels, const Y* y, const Bias* bias, Out* out, Index n) {
  alignas(64) float sum[kStrip];
  for (Index i = 0; i < n; i += kStrip) {
    const Index count = std::min(kStrip, n - i);
    kernels.scale[kIndexOf<Y>][0](y + i, count, 1.0f, sum);
    kernels.add_scaled[kIndexOf<Bias>](bias + i, count, 1.0f, sum);
    kernels.scale[0][kIndexOf<Out>](sum, count, 1.0f, out + i);
  }
}

/// out = y + bias over the rows of one group.
template <typename Y, typename Bias, typename Out>
void add_row(const FloatKernels& kernels, const Matrix<const Y>& y, const Matrix<const Bias>& bias,
             Index b, const Matrix<Out>& out, RowRange rows, int threads) {
  const Index columns = y.extent[1];
  const bool adjacent = y.stride[1] == 1 && bias.stride[1] == 1 && out.stride[1] == 1;
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index row = rows.first; row < rows.past; ++row) {
    if (adjacent) {
      add_adjacent(kernels, &y(row, 0), &bias(b, 0), &out(row, 0), columns);
      continue;
    }
    for (Index n = 0; n < columns; ++n) {
      out(row, n) = rounded<Out>(to_float(y(row, n)) + to_float(bias(b, n)));
    }
  }
}

/// sum[s, columns] over `rows`; each column is its own chain, rows ascending.
template <typename X, typename Sum>
void sum_columns(const FloatKernels& kernels, const Matrix<const X>& x, RowRange rows,
                 const Matrix<Sum>& sum, Index s, Index first, Index past) {
  float total[kSumColumns] = {};
  const Index n = past - first;
  for (Index row = rows.first; row < rows.past; ++row) {
    const X* in = &x(row, first);
    if (x.stride[1] == 1) {
      kernels.add_scaled[kIndexOf<X>](in, n, 1.0f, total);
    } else {
      for (Index i = 0; i < n; ++i) total[i] += to_float(in[i * x.stride[1]]);
    }
  }
  for (Index i = 0; i < n; ++i) sum(s, first + i) = rounded<Sum>(total[i]);
}

template <typename X, typename Sum>
void sum_all_columns(const FloatKernels& kernels, const ColumnSum& op, const X& x, const Sum& sum,
                     int workers) {
  const Index tiles = ceil_div(x.extent[1], kSumColumns);
#pragma omp parallel for num_threads(workers) collapse(2) schedule(dynamic) \
    firstprivate(ieee_thread)
  for (Index s = 0; s < sum.extent[0]; ++s) {
    for (Index tile = 0; tile < tiles; ++tile) {
      sum_columns(kernels, x, rows_of_sum(op, s), sum, s, tile * kSumColumns,
                  std::min((tile + 1) * kSumColumns, x.extent[1]));
    }
  }
}

}  // namespace

void CpuBackend::run(const Cast& op) {
  if (!op.x.contiguous() || !op.y.contiguous()) {
    ReferenceBackend::run(op);
    return;
  }
  const Index n = op.x.elements();
  if (op.x.dtype != Dtype::f16 && op.y.dtype != Dtype::f16) {
    const FloatKernels& kernels = float_kernels(isa());
    cast_by(*kernels.scale[float_index(op.x.dtype)][float_index(op.y.dtype)], op.x, op.y,
            useful_threads(n, threads()));
    return;
  }
  visit_wide_float(op.x.dtype, [&](auto from) {
    visit_wide_float(op.y.dtype, [&](auto to) {
      cast_all(static_cast<const typename decltype(from)::type*>(op.x.data),
               static_cast<typename decltype(to)::type*>(op.y.data), n,
               useful_threads(n, threads()));
    });
  });
}

void CpuBackend::run(const AddBias& op) {
  visit_addition(op, [&](const auto& y, const auto& bias, const auto& out) {
    RowRange rows{0, 0};
    for (Index g = 0; g < groups_of(op.group_ends); ++g) {
      rows = {rows.past, end_of(op.group_ends, g, y.extent[0])};
      add_row(float_kernels(isa()), y, bias, op.bias.rank == 1 ? 0 : g, out, rows,
              useful_threads((rows.past - rows.first) * y.extent[1], threads()));
    }
  });
}

void CpuBackend::run(const ColumnSum& op) {
  visit_sum(op, [&](const auto& x, const auto& sum) {
    sum_all_columns(float_kernels(isa()), op, x, sum,
                    useful_threads(x.extent[0] * x.extent[1], threads()));
  });
}

}  // namespace mxo::cpu
